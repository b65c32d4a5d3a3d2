// The reference: a page of Markdown for each table of the language and of the programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shared/command_tree.h"

namespace flow::cli {

struct ReferencePage {
  std::string_view name;     // of its file, without ".md": "optimizers"
  std::string_view summary;  // one line
  std::string (*text)();
};

/// All but the page of flags, which needs the command lines of all programs.
std::span<const ReferencePage> reference_pages();
/// The page "flags".
std::string flags_page(std::span<const CommandInfo> programs);

std::string job_page();
std::string ops_page();
std::string optimizers_page();
std::string schedules_page();
std::string errors_page();
std::string files_page();
std::string environment_page();
std::string tolerances_page();

/// "Runs a job." of "runs a job"
std::string sentence(std::string text);

/// The parts of a program's footer: "Exit status: ...", "Example: ...", and what else it says.
struct Footer {
  std::string exit_status, examples, remarks;
};
Footer read_footer(const std::string& footer);
/// "0 done; 1 a check failed" as a table.
std::string exit_status_table(const std::string& text);

/// "flowc build FILE -o PLAN [options]". `of`: the program of a subcommand, or empty.
std::string usage(const CommandInfo& command, std::string_view of);
/// A table of arguments and one of options.
std::string options_text(const CommandInfo& command);

}  // namespace flow::cli
