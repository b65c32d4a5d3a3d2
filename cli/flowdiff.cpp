// flowdiff: compares the .npy files of two runs, folders or files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/diff_report.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/io/compare.h"

namespace flow::cli {
namespace {

struct Options {
  std::string golden, out;
  std::optional<std::string> relative, absolute;
  std::vector<std::string> tolerances, ignored;
  std::optional<std::string> json, junit, markdown;
  bool brief = false, append = false;
};

double read_tolerance(const std::string& text, const char* flag) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    throw RequestError(
        fmt::format("{}: invalid tolerance `{}`; expected a number of at least 0", flag, text),
        "write a number such as 1e-5");
  return value;
}

io::ToleranceRules::Rule read_rule(const std::string& text) {
  const size_t equals = text.rfind('=');
  const size_t comma = text.find(',', equals == text.npos ? 0 : equals);
  if (equals == text.npos || equals == 0 || comma == text.npos)
    throw RequestError(fmt::format("--tol: invalid rule `{}`; expected GLOB=R,A", text),
                       "write the relative and the absolute tolerance: --tol '**/bias=1e-4,1e-6'");
  return {text.substr(0, equals),
          {read_tolerance(text.substr(equals + 1, comma - equals - 1), "--tol"),
           read_tolerance(text.substr(comma + 1), "--tol")}};
}

io::ToleranceRules rules_of(const Options& options) {
  io::ToleranceRules rules;
  if (options.relative) rules.relative = read_tolerance(*options.relative, "--rtol");
  if (options.absolute) rules.absolute = read_tolerance(*options.absolute, "--atol");
  for (const std::string& text : options.tolerances) rules.rules.push_back(read_rule(text));
  return rules;
}

/// A glob that matches nothing is a mistake that would loosen or tighten nothing in silence.
void check_globs(const Options& options, const io::ToleranceRules& rules,
                 const io::Comparison& comparison) {
  std::vector<std::string> names = comparison.ignored;
  for (const auto& array : comparison.arrays) names.push_back(array.name);
  if (names.empty()) return;
  const auto check = [&names](const char* flag, const std::string& glob) {
    const auto matches = [&](const std::string& name) { return glob_match(glob, name); };
    if (std::ranges::any_of(names, matches)) return;
    const auto near = suggest(glob, names);
    throw RequestError(fmt::format("{}: no array matches `{}`", flag, glob),
                       near.empty() ? "match the path below the directory, without .npy"
                                    : "did you mean " + quoted_alternatives(near) + "?");
  };
  for (const auto& rule : rules.rules) check("--tol", rule.glob);
  for (const std::string& glob : options.ignored) check("--ignore", glob);
}

/// A report is not written over an array, a plan, or another report.
void check_reports(const Options& options) {
  if (options.append && !options.markdown)
    throw RequestError("--md-append requires --md FILE", "name the file to append to: --md FILE");
  std::vector<std::pair<const char*, fs::path>> reports;
  for (const auto& [flag, path] : {std::pair{"--json", options.json},
                                   {"--junit", options.junit},
                                   {"--md", options.markdown}}) {
    if (!path) continue;
    if (path->empty()) throw RequestError(fmt::format("{}: empty file name", flag), "name a file");
    std::error_code unknown;  // /dev/stdout may lead to a pipe, which has no path
    fs::path file = fs::weakly_canonical(fs::absolute(*path), unknown);
    if (unknown) file = *path;
    static const std::set<fs::path> kOfRuns = {"plan.json",       "run.json",   "metrics.jsonl",
                                               "checkpoint.json", "scope.json", "profile.json"};
    if (file.extension() == ".npy" || kOfRuns.contains(file.filename()))
      throw RequestError(fmt::format("{} {} may overwrite a file of a run", flag, *path),
                         "choose another name for the report");
    for (const auto& [before, other] : reports)
      if (other == file)
        throw RequestError(fmt::format("{} and {} name the same file", before, flag));
    reports.emplace_back(flag, file);
  }
}

/// Adds a report to a file, as a paragraph of its own; all of it, or nothing.
void append_report(const fs::path& path, const std::string& report) {
  std::error_code unknown;
  if (fs::exists(path, unknown) && !fs::is_regular_file(path, unknown))
    return write_text_atomically(path, report);  // a pipe or a terminal
  File file = File::open_update(path);
  const uint64_t before = file.size();
  const std::string text = before > 0 ? '\n' + report : report;
  try {
    file.write_at(before, std::as_bytes(std::span(text)));
  } catch (const RunError&) {
    file.truncate(before);
    throw;
  }
}

/// Job files and plans are for `flowc diff`.
void check_kind(const std::string& path) {
  const std::string extension = fs::path(path).extension();
  std::error_code unknown;
  for (const char* other : {".yaml", ".yml", ".json", ".plan"})
    if (extension == other && fs::is_regular_file(path, unknown))
      throw RequestError(
          fmt::format("{} is not an array: expected a .npy file, a directory or a run", path),
          "compare job files and plans with `flowc diff`");
}

int execute(const Options& options) {
  for (const std::string& path : {options.golden, options.out}) check_kind(path);
  const io::ToleranceRules rules = rules_of(options);
  check_reports(options);
  const io::Comparison comparison =
      io::compare_paths(options.golden, options.out, rules, options.ignored);
  check_globs(options, rules, comparison);
  const auto first = exec::first_difference(options.golden, comparison);
  bool to_output = false;  // a report takes the place of the table
  const auto write = [&to_output](const std::string& path, const std::string& report,
                                  bool append = false) {
    if (path != "-")
      return append ? append_report(path, report) : write_text_atomically(path, report);
    print(report);
    to_output = true;
  };
  if (options.json) write(*options.json, diff_json(comparison, options.golden, options.out, first));
  if (options.junit) write(*options.junit, diff_junit(comparison, first));
  if (options.markdown) write(*options.markdown, diff_markdown(comparison, first), options.append);
  if (!to_output) {
    print_painted(diff_table(comparison, options.brief, wants_color(stdout)));
    if (first) print(fmt::format("{}\n", first_text(*first)));
  }
  const std::string &golden = comparison.golden_checkpoint, &out = comparison.out_checkpoint;
  if (!golden.empty() && !out.empty() && golden != out)
    print_to_stderr(fmt::format("flowdiff: the checkpoints come from different steps: {} and {}\n",
                                escaped(golden), escaped(out)));
  if (comparison.pairs() == 0) {
    const bool all_ignored = comparison.arrays.empty() && !comparison.ignored.empty();
    print_error("flowdiff",
                all_ignored ? "nothing to compare: --ignore matches every array"
                            : "nothing to compare: no array is on both sides",
                all_ignored ? "narrow --ignore so that at least one array remains"
                            : "name two .npy files, two directories of them, or two runs");
    return kNothingCompared;
  }
  if (comparison.failed() == 0) return kDone;
  return comparison.failed() == comparison.unreadable() ? kRunFailed : kCheckFailed;
}

void declare(CLI::App& app, Options& options) {
  configure(app, "flowdiff");
  app.add_option("GOLDEN", options.golden, "reference: a .npy file, a directory or a run")
      ->required()
      ->type_name("");
  app.add_option("OUT", options.out, "what to compare with GOLDEN; the same kind")
      ->required()
      ->type_name("");
  app.add_option("--rtol", options.relative, "relative tolerance for floats, times |GOLDEN|")
      ->type_name("R");
  app.add_option("--atol", options.absolute, "absolute tolerance for floats")->type_name("A");
  app.add_option(
         "--tol", options.tolerances,
         "both tolerances for matching arrays of any dtype; the last match wins; repeatable")
      ->type_name("GLOB=R,A")
      ->allow_extra_args(false);
  app.add_option("--ignore", options.ignored,
                 "skip matching arrays, including those on one side only; repeatable")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--json", options.json, "write a JSON report; `-` is standard output")
      ->type_name("FILE");
  app.add_option("--junit", options.junit, "write a JUnit report; `-` is standard output")
      ->type_name("FILE");
  app.add_option("--md", options.markdown, "write a Markdown report; `-` is standard output")
      ->type_name("FILE");
  app.add_flag("--md-append", options.append,
               "append the Markdown report instead of replacing FILE");
  app.add_flag("--brief", options.brief, "list only failing arrays");
  app.footer(
      "An element passes if |out - golden| <= A + R * |golden|. NaN equals NaN, and an infinity\n"
      "equals itself. In a GLOB, * matches within a directory and ** matches across directories.\n"
      "\n"
      "Default R and A: float32 1.3e-6 and 1e-5; float64 1e-7 and 1e-7; float16 1e-3 and 1e-5;\n"
      "integers and bools exact.\n"
      "\n"
      "For runs, flowdiff compares `returns`, `watch`, `also` and the newest checkpoint. It also\n"
      "reports which differing array of `returns` and `watch` was computed first.\n"
      "\n"
      "Exit status:\n"
      "  0   equal within tolerance\n"
      "  1   different\n"
      "  2   invalid request\n"
      "  3   no differences found, but a file cannot be read\n"
      "  4   nothing compared\n"
      "  70  bug in flowdiff\n"
      "\n"
      "Examples:\n"
      "  flowdiff golden/returns out/returns\n"
      "  flowdiff golden out --ignore 'watch/**' --md \"$GITHUB_STEP_SUMMARY\" --md-append\n"
      "  flowdiff runs/lenet-train-001 runs/lenet-train-002 --tol 'checkpoint/**=1e-4,1e-6'");
}

}  // namespace
}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flowdiff", [&] {
    CLI::App app{"Compare the arrays of two runs, two directories or two .npy files.", "flowdiff"};
    flow::cli::Options options;
    flow::cli::declare(app, options);
    const int status = flow::cli::parse(app, argc, argv);
    return status >= 0 ? status : flow::cli::execute(options);
  });
}
