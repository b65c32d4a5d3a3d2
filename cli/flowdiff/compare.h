// `flowdiff GOLDEN OUT`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/tolerance.h"

namespace CLI {
class App;
}

namespace flow::cli {

struct CompareOptions {
  std::string golden, out;
  std::optional<std::string> relative, absolute;
  std::vector<std::string> tolerances, ignored;
  std::optional<std::string> json, junit, markdown;
  bool brief = false, append = false, strict = false, self_test = false;
  bool first = false, no_rerun = false;
  std::optional<std::string> output;  // of --first
};

/// Adds its arguments and flags to the program.
void declare_compare(CLI::App& app, CompareOptions& options);

/// The folder's rules, and after them, which override them, those of the command line.
compare::ToleranceRules rules_of(const CompareOptions& options,
                                 std::vector<compare::ToleranceRule> of_folder);

/// RequestError for a glob of the command line that matches none of the names: it would loosen or
/// tighten nothing in silence.
void check_globs(const CompareOptions& options, const std::vector<std::string>& names);

/// RequestError where a report of the options cannot be written.
void check_diff_reports(const CompareOptions& options);

/// How each report is made, if it is asked for.
struct ReportTexts {
  std::function<std::string()> json, junit, markdown;
};

/// Writes those that are asked for. True where one took the place of the table on standard output.
bool write_diff_reports(const CompareOptions& options, const ReportTexts& texts);

/// Compares, prints and writes reports; the exit status.
int run_compare(const CompareOptions& options);

}  // namespace flow::cli
