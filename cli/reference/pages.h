// The reference: one page of Markdown for each table of the language and of the programs, and man
// pages and completions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shared/command_line.h"

namespace flow::cli {

struct ReferencePage {
  std::string_view name;     // the file name without ".md": "optimizers"
  std::string_view summary;  // one line
  std::string (*text)();
};

/// Returns all pages except the page of flags, which needs the command lines of all programs.
std::span<const ReferencePage> reference_pages();
/// Returns the page "flags".
std::string flags_page(std::span<const CommandInfo> programs);

std::string job_page();
std::string ops_page();
std::string optimizers_page();
std::string schedules_page();
std::string errors_page();
std::string files_page();
std::string environment_page();
std::string tolerances_page();

/// Return the sections of man pages about files and about environment variables.
std::string files_of_manual();
std::string environment_of_manual(bool of_flowrun);

struct GeneratedFile {
  std::string name, text;
};

/// Returns flowc.1, flowrun.1, flowdiff.1 and flow-job.5.
std::vector<GeneratedFile> man_pages(std::span<const CommandInfo> programs);

/// Returns the completions of each program: bash/NAME, zsh/_NAME, fish/NAME.fish.
std::vector<GeneratedFile> completions(std::span<const CommandInfo> programs);

}  // namespace flow::cli
