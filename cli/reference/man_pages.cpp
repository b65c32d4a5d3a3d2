// Man pages: the Markdown of the reference in the order that manuals have.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/reference/environment_table.h"
#include "cli/reference/manuals.h"
#include "cli/reference/pages.h"
#include "cli/reference/run_files_table.h"
#include "cli/shared/markdown.h"
#include "flow_version.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

std::string lowered(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  while (text.ends_with('.')) text.pop_back();
  return text;
}

/// The synopsis of a program has no emphasis but for what is typed as it is.
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

std::string environment_text(bool of_flowrun) {
  std::string text = "\n## Environment\n\n| variable | meaning |\n| --- | --- |\n";
  for (const EnvironmentRow& row : environment_read())
    if (of_flowrun || !row.only_flowrun) text += fmt::format("| `{}` | {} |\n", row.name, row.doc);
  if (!of_flowrun) return text;
  text +=
      "\nCommands of hooks and returns get these variables:\n\n| variable | meaning |\n| --- | "
      "--- |\n";
  for (const EnvironmentRow& row : environment_of_commands())
    text += fmt::format("| `{}` | {} |\n", row.name, row.doc);
  return text;
}

std::string files_text() {
  std::string text = "\n## Files\n\nIn the run directory:\n\n| path | contents |\n| --- | --- |\n";
  for (const FileRow& row : run_files()) text += fmt::format("| `{}` | {} |\n", row.path, row.doc);
  text += "\nIn a checkpoint:\n\n| path | contents |\n| --- | --- |\n";
  for (const FileRow& row : checkpoint_files())
    text += fmt::format("| `{}` | {} |\n", row.path, row.doc);
  text += "\nIn a row of `metrics.jsonl`:\n\n| key | meaning |\n| --- | --- |\n";
  for (const FileRow& row : metrics_keys())
    text += fmt::format("| `{}` | {} |\n", row.path, row.doc);
  return text;
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
  if (program.name == "flowrun") text += files_text();
  text += environment_text(program.name == "flowrun");
  if (!footer.examples.empty())
    text += fmt::format("\n## Examples\n\n```\n{}\n```\n", footer.examples);
  text += see_also(program.name);
  return {program.name + ".1", page(program.name, 1, lowered(program.doc), text)};
}

/// Without its title: a man page has its own.
std::string below_title(const std::string& markdown) {
  return markdown.substr(markdown.find('\n') + 1);
}

/// Sections of pages that become part of another one go a level down.
std::string part(const std::string& title, const std::string& markdown) {
  std::string text = "\n## " + title + '\n';
  for (const std::string& line : split(below_title(markdown), '\n'))
    text += (line.starts_with("##") ? "#" : "") + line + '\n';
  return text;
}

}  // namespace

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
