// The page of flags: the command lines of all programs.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/reference/pages.h"
#include "cli/shared/markdown.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

std::string choices_text(const OptionInfo& option) { return join(option.choices, "|"); }

/// "`-o`, `--output` `DIR`"
std::string option_cell(const OptionInfo& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back('`' + name + '`');
  const std::string value = option.choices.empty() ? option.value : choices_text(option);
  return join(names, ", ") + (value.empty() || option.is_argument() ? "" : " `" + value + '`');
}

std::string meaning(const OptionInfo& option) {
  std::string text = option.doc;
  if (option.is_argument() && !option.choices.empty())
    text += fmt::format(": {}", quoted_alternatives(option.choices));
  if (option.required && !option.is_argument()) text += "; required";
  return text;
}

std::string table(const CommandInfo& command, bool arguments) {
  std::string text;
  for (const OptionInfo& option : command.options)
    if (option.is_argument() == arguments)
      text += fmt::format("| {} | {} |\n", markdown_cell(option_cell(option)),
                          markdown_cell(meaning(option)));
  if (text.empty()) return {};
  return fmt::format("\n| {} | meaning |\n| --- | --- |\n{}", arguments ? "argument" : "flag",
                     text);
}

std::string lines_text(const std::string& text) {
  return text.empty() ? "" : "\n```\n" + text + "\n```\n";
}

std::string footer_text(const CommandInfo& command) {
  const Footer footer = read_footer(command.footer);
  std::string text;
  if (!footer.remarks.empty()) text += '\n' + footer.remarks + '\n';
  if (!footer.exit_status.empty()) text += '\n' + exit_status_table(footer.exit_status);
  return text + lines_text(footer.examples);
}

std::string command_text(const CommandInfo& command, std::string_view of) {
  const std::string name = of.empty() ? command.name : fmt::format("{} {}", of, command.name);
  std::string text = fmt::format("\n{} `{}`\n\n{}\n{}", of.empty() ? "##" : "###", name,
                                 sentence(command.doc), lines_text(usage(command, of)));
  text += options_text(command) + footer_text(command);
  for (const CommandInfo& inner : command.commands) text += command_text(inner, command.name);
  return text;
}

/// A line of prose continues in the next one unless that is indented, or follows an empty one.
std::string joined_lines(const std::string& text) {
  std::string joined;
  if (trimmed(text).empty()) return joined;
  for (const std::string& line : split(trimmed(text), '\n')) {
    const bool fresh = line.empty() || line.starts_with(' ') || joined.empty();
    joined += (joined.empty() ? "" : fresh || joined.ends_with('\n') ? "\n" : " ") + line;
  }
  return joined;
}

/// Indented lines are code.
std::string with_fences(const std::string& text) {
  std::string fenced;
  bool code = false;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(' ') != code) fenced += code ? "```\n" : "\n```\n";
    code = line.starts_with(' ');
    fenced += (code ? trimmed(line) : line) + '\n';
  }
  return trimmed(fenced + (code ? "```" : ""));
}

}  // namespace

std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + (text.ends_with('.') ? "" : ".");
}

std::string exit_status_table(const std::string& text) {
  std::string rows;
  const auto add_row = [&rows](std::string row) {
    row = trimmed(row);
    while (row.ends_with(';') || row.ends_with(',') || row.ends_with('.')) row.pop_back();
    const size_t blank = row.find(' ');
    if (!row.empty())
      rows += fmt::format("| `{}` | {} |\n", row.substr(0, blank),
                          blank == row.npos ? "" : markdown_cell(trimmed(row.substr(blank + 1))));
  };
  std::string_view rest = text;
  /// Where the next number begins: on a new line, or after "; " or ", ".
  const auto next = [&rest] {
    for (size_t at = rest.find_first_of(" \n"); at != rest.npos;
         at = rest.find_first_of(" \n", at + 1))
      if (at > 0 && (rest[at] == '\n' ||
                     ((rest[at - 1] == ';' || rest[at - 1] == ',') && at + 1 < rest.size() &&
                      std::isdigit(static_cast<unsigned char>(rest[at + 1])))))
        return at;
    return rest.npos;
  };
  while (!rest.empty()) {
    const size_t end = next();
    add_row(std::string(rest.substr(0, end)));
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
  return "| exit status | meaning |\n| --- | --- |\n" + rows;
}

Footer read_footer(const std::string& footer) {
  Footer read;
  std::string* into = &read.remarks;
  for (std::string line : split(footer, '\n')) {
    for (const std::string_view title : {"Exit status:", "Examples:", "Example:"}) {
      const size_t at = line.find(title);
      // An exit status may follow a remark on its line.
      if (at == line.npos || (at > 0 && title[1] == 'x' && title[2] == 'a')) continue;
      *into += line.substr(0, at);
      into = title[2] == 'i' ? &read.exit_status : &read.examples;
      line = line.substr(at + title.size());
      break;
    }
    *into += (into == &read.examples ? trimmed(line) : line) + '\n';
  }
  return {joined_lines(read.exit_status), trimmed(read.examples),
          with_fences(joined_lines(read.remarks))};
}

std::string usage(const CommandInfo& command, std::string_view of) {
  std::string text = of.empty() ? command.name : fmt::format("{} {}", of, command.name);
  for (const OptionInfo& option : command.options) {
    if (option.is_argument())
      text += option.required ? ' ' + option.names[0] : " [" + option.names[0] + ']';
    else if (option.required)
      text += fmt::format(" {} {}", option.names[0], option.value);
  }
  const auto is_argument = [](const OptionInfo& option) { return option.is_argument(); };
  if (!command.commands.empty() && std::ranges::none_of(command.options, is_argument))
    text += " COMMAND";
  return text + " [OPTIONS]";
}

std::string options_text(const CommandInfo& command) {
  return table(command, true) + table(command, false);
}

std::string flags_page(std::span<const CommandInfo> programs) {
  std::string text =
      "# Flags\n\nThe command lines of `flowc`, `flowrun` and `flowdiff`. "
      "`PROGRAM --help` prints the same.\n";
  for (const CommandInfo& program : programs) text += command_text(program, {});
  return text;
}

}  // namespace flow::cli
