// The reference, a page of Markdown for each table of the language and of the programs, with man
// pages and completions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shared/command_line.h"

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

/// An environment variable.
struct EnvironmentRow {
  std::string_view name, doc;
  bool only_flowrun = false;  // the other programs do not read it
};

/// The variables that the programs read.
std::span<const EnvironmentRow> environment_read();
/// The variables that the commands of hooks and returns get.
std::span<const EnvironmentRow> environment_of_commands();

/// A file of a run directory, or a key of a file.
struct FileRow {
  std::string_view path;  // relative to the directory; NAME and the like stand for names
  std::string_view doc;
};

/// What a run directory and a checkpoint hold.
std::span<const FileRow> run_files();
std::span<const FileRow> checkpoint_files();
/// The keys of a line of metrics.jsonl.
std::span<const FileRow> metrics_keys();

struct GeneratedFile {
  std::string name, text;
};

/// flowc.1, flowrun.1, flowdiff.1 and flow-job.5.
std::vector<GeneratedFile> man_pages(std::span<const CommandInfo> programs);

/// Completions of each program: bash/NAME, zsh/_NAME, fish/NAME.fish.
std::vector<GeneratedFile> completions(std::span<const CommandInfo> programs);

/// What completes a value on the command line: "files", "folders", "job_files", "runs" (a folder or
/// a file) and "none" are for shells to know. All others are kinds of `flowc complete`.
std::string_view completed_by(const CommandInfo& command, const OptionInfo& option);

}  // namespace flow::cli
