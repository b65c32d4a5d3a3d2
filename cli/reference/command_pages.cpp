// Writes the command lines of the programs as the page of flags and as man pages. The Markdown of a
// man page follows the usual order of manual sections.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/reference/pages.h"
#include "cli/shared/markdown.h"
#include "flow_version.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

/// Returns "Runs a job." for "runs a job".
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + (text.ends_with('.') ? "" : ".");
}

/// Converts a text such as "0 done; 1 a check failed" to a table.
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
  /// Finds where the next number begins: on a new line, or after "; " or ", ".
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

/// Joins each line of prose to the line before it, unless the line is indented or follows an empty
/// line.
std::string joined_lines(const std::string& text) {
  std::string joined;
  if (trimmed(text).empty()) return joined;
  for (const std::string& line : split(trimmed(text), '\n')) {
    const bool fresh = line.empty() || line.starts_with(' ') || joined.empty();
    joined += (joined.empty() ? "" : fresh || joined.ends_with('\n') ? "\n" : " ") + line;
  }
  return joined;
}

/// Fences indented lines, which are code.
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

/// The parts of a program's footer: "Exit status: ...", "Example: ...", and the remaining text.
struct Footer {
  std::string exit_status, examples, remarks;
};

Footer read_footer(const std::string& footer) {
  Footer read;
  std::string* into = &read.remarks;
  for (std::string line : split(footer, '\n')) {
    for (const std::string_view title : {"Exit status:", "Examples:", "Example:"}) {
      const size_t at = line.find(title);
      // "Exit status:" may follow a remark on the same line. The other titles begin a line.
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

/// Returns "flowc build FILE -o PLAN [OPTIONS]". `of` is the program of a subcommand, or empty.
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

std::string choices_text(const OptionInfo& option) { return join(option.choices, "|"); }

/// Returns "`-o`, `--output` `DIR`".
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

/// Returns a table of the arguments and a table of the options.
std::string options_text(const CommandInfo& command) {
  return table(command, true) + table(command, false);
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

std::string lowered(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  while (text.ends_with('.')) text.pop_back();
  return text;
}

/// Returns the synopsis of a program and its commands as a code block, without other emphasis.
std::string synopsis(const CommandInfo& program) {
  std::string text;
  const auto add = [&text](const std::string& line) { text += line + '\n'; };
  const auto is_argument = [](const OptionInfo& option) { return option.is_argument(); };
  if (program.commands.empty() || std::ranges::any_of(program.options, is_argument))
    add(usage(program, {}));
  for (const CommandInfo& command : program.commands) add(usage(command, program.name));
  return "\n```\n" + text + "```\n";
}

std::string commands_text(const CommandInfo& program) {
  std::string text;
  for (const CommandInfo& command : program.commands) {
    const Footer footer = read_footer(command.footer);
    text += fmt::format("\n### {} {}\n\n{}\n{}", program.name, command.name, sentence(command.doc),
                        options_text(command));
    if (!footer.remarks.empty()) text += '\n' + footer.remarks + '\n';
    if (!footer.exit_status.empty())
      text += "\nExit status:\n\n" + exit_status_table(footer.exit_status);
    if (!footer.examples.empty()) text += fmt::format("\n```\n{}\n```\n", footer.examples);
  }
  return text.empty() ? "" : "\n## Commands\n" + text;
}

std::string page(std::string_view name, int section, std::string_view summary,
                 const std::string& markdown) {
  return fmt::format(".TH {} {} \"\" \"flow {}\" \"flow\"\n.SH NAME\n{} \\- {}\n{}", name, section,
                     FLOW_VERSION, name, summary, to_man(parse_markdown(markdown)));
}

std::string see_also(std::string_view name) {
  std::vector<std::string> others;
  for (const std::string_view other : {"flowc(1)", "flowdiff(1)", "flowrun(1)", "flow-job(5)"})
    if (!other.starts_with(name)) others.emplace_back(other);
  return "\n## See also\n\n" + join(others, ", ") + "\n\n`flowc help` lists the guides.\n";
}

GeneratedFile program_page(const CommandInfo& program) {
  const Footer footer = read_footer(program.footer);
  std::string text =
      "## Synopsis\n" + synopsis(program) + "\n## Description\n\n" + sentence(program.doc) + '\n';
  if (!footer.remarks.empty()) text += '\n' + footer.remarks + '\n';
  text += "\n## Options\n" + options_text(program) + commands_text(program);
  if (!footer.exit_status.empty())
    text += "\n## Exit status\n\n" + exit_status_table(footer.exit_status);
  if (program.name == "flowrun") text += files_of_manual();
  text += environment_of_manual(program.name == "flowrun");
  if (!footer.examples.empty())
    text += fmt::format("\n## Examples\n\n```\n{}\n```\n", footer.examples);
  text += see_also(program.name);
  return {program.name + ".1", page(program.name, 1, lowered(program.doc), text)};
}

/// Removes the title, because a man page has a title of its own.
std::string below_title(const std::string& markdown) {
  return markdown.substr(markdown.find('\n') + 1);
}

/// Returns a page as a section of another page, with its headings one level lower.
std::string part(const std::string& title, const std::string& markdown) {
  std::string text = "\n## " + title + '\n';
  for (const std::string& line : split(below_title(markdown), '\n'))
    text += (line.starts_with("##") ? "#" : "") + line + '\n';
  return text;
}

}  // namespace

std::string flags_page(std::span<const CommandInfo> programs) {
  std::string text =
      "# Flags\n\nThe command lines of `flowc`, `flowrun` and `flowdiff`. "
      "`PROGRAM --help` prints the same.\n";
  for (const CommandInfo& program : programs) text += command_text(program, {});
  return text;
}

std::vector<GeneratedFile> man_pages(std::span<const CommandInfo> programs) {
  std::vector<GeneratedFile> pages;
  for (const CommandInfo& program : programs) pages.push_back(program_page(program));
  const std::string job = "## Description\n" + below_title(job_page()) +
                          part("Optimizers", optimizers_page()) +
                          part("Schedules", schedules_page()) + see_also("flow-job");
  pages.push_back({"flow-job.5", page("flow-job", 5, "the job file of flowc and flowrun", job)});
  return pages;
}

}  // namespace flow::cli
