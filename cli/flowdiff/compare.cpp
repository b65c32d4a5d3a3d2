// Implements `flowdiff GOLDEN OUT`, which compares the .npy files of two runs, folders or files and
// applies the tolerances.yaml of a golden folder, and `flowdiff --self-test GOLDEN`, which checks
// whether the tolerances would detect injected faults.
#include "cli/flowdiff/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "cli/flowdiff/report.h"
#include "cli/shared/command_line.h"
#include "cli/shared/console.h"
#include "cli/shared/reports.h"
#include "compiler/tolerances/tolerances.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/compare/golden.h"
#include "runtime/compare/run_plan.h"
#include "runtime/compare/tolerance.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

using compare::MissedFault;
using compare::SelfTest;
using compare::Side;

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

compare::ToleranceRule read_rule(const std::string& text) {
  const size_t equals = text.rfind('=');
  const size_t comma = text.find(',', equals == text.npos ? 0 : equals);
  if (equals == text.npos || equals == 0 || comma == text.npos)
    throw RequestError(fmt::format("--tol: invalid rule `{}`; expected GLOB=R,A", text),
                       "write the relative and the absolute tolerance: --tol '**/bias=1e-4,1e-6'");
  return {.glob = text.substr(0, equals),
          .tolerance = {read_tolerance(text.substr(equals + 1, comma - equals - 1), "--tol"),
                        read_tolerance(text.substr(comma + 1), "--tol")}};
}

/// Returns the folder's rules followed by those of the command line, which take precedence.
compare::ToleranceRules rules_of(const CompareOptions& options,
                                 std::vector<compare::ToleranceRule> of_folder) {
  compare::ToleranceRules rules;
  if (options.relative) rules.relative = read_tolerance(*options.relative, "--rtol");
  if (options.absolute) rules.absolute = read_tolerance(*options.absolute, "--atol");
  rules.rules = std::move(of_folder);
  for (const std::string& text : options.tolerances) rules.rules.push_back(read_rule(text));
  return rules;
}

/// Throws RequestError if a glob of the command line matches none of the names. The glob would
/// otherwise have no effect, and no message would mention it.
void check_globs(const CompareOptions& options, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const auto check = [&names](const char* flag, const std::string& glob) {
    const auto matches = [&](const std::string& name) { return glob_match(glob, name); };
    if (std::ranges::any_of(names, matches)) return;
    const auto near = suggest(glob, names);
    throw RequestError(fmt::format("{}: {}", flag, no_match("array", glob)),
                       near.empty() ? "match the path below the directory, without .npy"
                                    : "did you mean " + quoted_alternatives(near) + "?");
  };
  for (const std::string& text : options.tolerances) check("--tol", read_rule(text).glob);
  for (const std::string& glob : options.ignored) check("--ignore", glob);
}

/// Throws RequestError if a report that the options request cannot be written.
void check_diff_reports(const CompareOptions& options) {
  if (options.append && !options.markdown)
    throw RequestError("--md-append requires --md FILE", "name the file to append to: --md FILE");
  check_reports({{"--json", options.json}, {"--junit", options.junit}, {"--md", options.markdown}},
                {options.golden, options.out});
}

/// The functions that make each requested report.
struct ReportTexts {
  std::function<std::string()> json, junit, markdown;
};

/// Writes the requested reports. Returns true if one of them replaced the table on standard output.
bool write_diff_reports(const CompareOptions& options, const ReportTexts& texts) {
  bool to_output = false;
  if (options.json) to_output |= write_report_file(*options.json, texts.json());
  if (options.junit) to_output |= write_report_file(*options.junit, texts.junit());
  if (options.markdown)
    to_output |= write_report_file(*options.markdown, texts.markdown(), options.append);
  return to_output;
}

/// The rules for a comparison from the tolerances.yaml of a golden folder.
class FolderTolerances {
 public:
  /// Reads the file of `golden` if it has one. REQUIRES: `golden` outlives this object.
  explicit FolderTolerances(const Side& golden) : golden_(golden) {
    const fs::path path = golden.path / kTolerancesFile;
    std::error_code unknown;
    if (golden.kind != compare::Kind::kFile && fs::exists(fs::symlink_status(path, unknown)))
      file_.emplace(path);
  }

  std::vector<compare::ToleranceRule> rules() const {
    std::vector<compare::ToleranceRule> rules;
    if (!file_) return rules;
    for (const tolerances::Entry& entry : file_->entries()) {
      compare::ToleranceRule rule{.glob = entry.glob.text,
                                  .tolerance = {entry.relative, entry.absolute},
                                  .spread = entry.spread,
                                  .where = file_->where(entry)};
      for (const auto& steps : entry.steps)
        rule.steps.push_back(
            {steps.range.first, steps.range.end, {steps.relative, steps.absolute}});
      if (entry.last_step) rule.last_step = *entry.last_step;
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  /// Reports the problems of the file on standard error, including globs that match none of the
  /// names and steps that no array has. Returns false after an error.
  bool check(const std::vector<std::string>& names) {
    if (!file_) return true;
    if (!file_->diags().has_errors()) {
      file_->check_globs(names);
      file_->check_steps(
          names, [this](const std::string& name) { return compare::steps_of_file(golden_, name); });
    }
    const Diags& diags = file_->diags();
    print_messages(file_->name(), diags.render(message_layout()), diags.distinct_errors());
    return !diags.has_errors();
  }

 private:
  const Side& golden_;
  std::optional<tolerances::TolerancesFile> file_;
};

std::vector<std::string> names_of(const Side& golden, const Side& out) {
  std::vector<std::string> names;
  for (const auto& [name, path] : golden.arrays) names.push_back(name);
  if (golden.kind == compare::Kind::kFile) return names;
  for (const auto& [name, path] : out.arrays)
    if (!golden.has(name)) names.push_back(name);
  return names;
}

/// Rejects job files and plans, which `flowc diff` compares.
void check_kind(const std::string& path) {
  const std::string extension = fs::path(path).extension();
  std::error_code unknown;
  for (const char* other : {".yaml", ".yml", ".json", ".plan"})
    if (extension == other && fs::is_regular_file(path, unknown))
      throw RequestError(
          fmt::format("{} is not an array: expected a .npy file, a directory or a run", path),
          "compare job files and plans with `flowc diff`");
}

/// Adds the manual changes that golden.json reveals: doubts about arrays, and notes.
void compare_with_record(const Side& golden, DiffReport& report) {
  const auto record = compare::read_golden_record(golden.path);
  if (!record) return;
  const compare::HandChanges found = compare::find_hand_changes(golden, *record);
  for (compare::ArrayDifference& array : report.comparison.arrays) {
    const bool changed = std::ranges::count(found.changed, array.name) > 0;
    if (!changed && std::ranges::count(found.added, array.name) == 0) continue;
    if (array.verdict == compare::Verdict::kExtra) continue;
    array.doubts.push_back(changed
                               ? fmt::format("golden was changed by hand after {}", record->date)
                               : fmt::format("golden was added by hand after {}", record->date));
    if (!array.failed()) array.verdict = compare::Verdict::kMistrusted;
  }
  for (const std::string& name : found.removed)
    report.notes.push_back(
        fmt::format("golden was removed by hand after {}: {}", record->date, escaped(name)));
}

/// Adds a note for each relative tolerance of 1 or more, which accepts zeros regardless of the
/// golden values.
void note_wide_tolerances(const compare::ToleranceRules& rules, std::vector<std::string>& notes) {
  const auto note = [&notes](const std::string& where, double relative) {
    if (relative >= 1)
      notes.push_back(
          fmt::format("{}: a relative tolerance of {:g} accepts zeros in place of any result",
                      where, relative));
  };
  note("--rtol", rules.relative.value_or(0));
  for (const compare::ToleranceRule& rule : rules.rules)
    note(rule.where.empty() ? fmt::format("--tol {}", rule.glob) : rule.where,
         rule.widest_relative());
}

DiffReport compare_all(const CompareOptions& options, const Side& golden, const Side& out,
                       const compare::ToleranceRules& rules) {
  DiffReport report{.golden = options.golden, .out = options.out, .strict = options.strict};
  report.comparison = compare::compare_sides(golden, out, rules, options.ignored);
  note_wide_tolerances(rules, report.notes);
  if (golden.kind == compare::Kind::kFile) return report;
  compare_with_record(golden, report);
  if (golden.kind != compare::Kind::kRun) return report;
  report.data = compare::data_changes(golden.path, out.path);
  if (const auto plan = compare::read_run_plan(golden.path)) {
    compare::order_by_plan(*plan, report.comparison);
    report.first = compare::first_difference(*plan, golden.path, report.comparison);
    if (const auto other = compare::read_run_plan(out.path))
      report.plans = compare::plan_changes(*plan, *other);
  }
  return report;
}

void write_reports(const CompareOptions& options, const DiffReport& report) {
  const bool to_output = write_diff_reports(
      options, {[&] { return diff_json(report); }, [&] { return diff_junit(report); },
                [&] { return diff_markdown(report); }});
  if (!to_output) {
    for (const std::string& line : report.data) print(line + "\n");
    print_painted(diff_table(report.comparison, options.brief, wants_color(stdout)));
    for (const std::string& line : closing_lines(report)) print(line + "\n");
  }
  const auto& [golden, out] =
      std::pair(report.comparison.golden_checkpoint, report.comparison.out_checkpoint);
  if (!golden.empty() && !out.empty() && golden != out)
    print_to_stderr(fmt::format("flowdiff: the checkpoints come from different steps: {} and {}\n",
                                escaped(golden), escaped(out)));
}

int nothing_compared(const compare::Comparison& comparison) {
  const bool all_ignored = comparison.arrays.empty() && !comparison.ignored.empty();
  print_error("flowdiff",
              all_ignored ? "nothing to compare: --ignore matches every array"
                          : "nothing to compare: no array is on both sides",
              all_ignored ? "narrow --ignore so that at least one array remains"
                          : "name two .npy files, two directories of them, or two runs");
  return kNothingCompared;
}

int exit_status_of(const DiffReport& report) {
  const Outcome outcome = outcome_of(report);
  if (outcome == Outcome::kNothingCompared) return nothing_compared(report.comparison);
  if (outcome == Outcome::kUnreadable) return kRunFailed;
  return outcome == Outcome::kFailed ? kCheckFailed : kDone;
}

// Faults that the tolerances let through ----------------------------------------------------------

/// Returns "up to 1 %" if the sizes are numbers, because smaller faults also pass, a list such as
/// "to float16" for other sizes, or "any" if there are no sizes.
std::string sizes_text(const MissedFault& fault) {
  if (fault.sizes.empty()) return "any";
  const bool numbers = fault.sizes.front().find('%') != std::string::npos;
  return numbers ? "up to " + fault.sizes.front() : join(fault.sizes, ", ");
}

/// Returns a text such as "66 of 80 faults found".
std::string self_test_summary(const SelfTest& test) {
  return fmt::format("{} of {} found", test.found,
                     counted(static_cast<uint64_t>(test.injected), "fault"));
}

std::string self_test_json(const std::string& golden, const SelfTest& test) {
  OrderedJson json{{"golden", golden},
                   {"injected", test.injected},
                   {"found", test.found},
                   {"missed", OrderedJson::array()},
                   {"not_tested", test.skipped}};
  for (const MissedFault& missed : test.missed)
    json["missed"].push_back(
        {{"array", missed.array}, {"fault", missed.fault}, {"sizes", missed.sizes}});
  return json_text(json);
}

/// Writes one JUnit test case per array. With `strict`, a case fails if a fault passes undetected.
std::string self_test_junit(const SelfTest& test, bool strict) {
  std::vector<JunitCase> cases;
  for (const SelfTest::Array& array : test.arrays) {
    std::vector<std::string> lines;
    for (const MissedFault& missed : test.missed)
      if (missed.array == array.name)
        lines.push_back(fmt::format("{} not detected: {}", missed.fault, sizes_text(missed)));
    std::string inside;
    if (!lines.empty())
      inside = strict ? junit_failure(
                            fmt::format("{} of {} found", array.found,
                                        counted(static_cast<uint64_t>(array.injected), "fault")),
                            xml_lines(lines))
                      : fmt::format("<system-out>{}</system-out>", xml_lines(lines));
    cases.push_back({"flowdiff", array.name, inside});
  }
  std::vector<std::string> lines = {self_test_summary(test)};
  for (const std::string& skipped : test.skipped) lines.push_back("not tested: " + skipped);
  return junit("flowdiff --self-test", cases, lines);
}

/// Returns a summary and a table of at most 50 faults that pass undetected.
std::string self_test_markdown(const SelfTest& test) {
  constexpr size_t kMostRows = 50;
  std::string text = fmt::format("**{}**\n", self_test_summary(test));
  if (!test.missed.empty()) text += "\n| array | fault | not detected |\n| --- | --- | --- |\n";
  const size_t rows = std::min(kMostRows, test.missed.size());
  for (size_t i = 0; i < rows; ++i) {
    const MissedFault& missed = test.missed[i];
    text += markdown_row({missed.array, missed.fault, sizes_text(missed)});
  }
  if (test.missed.size() > rows)
    text += fmt::format("\nand {}\n", counted(test.missed.size() - rows, "more fault"));
  for (const std::string& skipped : test.skipped)
    text += fmt::format("\nnot tested: {}\n", markdown_text(skipped));
  return text;
}

void check_options(const CompareOptions& options) {
  if (!options.out.empty())
    throw RequestError(fmt::format("--self-test takes no OUT: {}", options.out),
                       "name only GOLDEN; its own arrays are compared with faults in them");
  check_diff_reports(options);
}

void print_result(const compare::SelfTest& test) {
  Table table;
  if (!test.missed.empty()) table.row({"array", "fault", "passes"});
  for (const compare::MissedFault& missed : test.missed)
    table.row({missed.array, missed.fault, sizes_text(missed)});
  print(table.str());
  for (const std::string& skipped : test.skipped) print(fmt::format("not tested: {}\n", skipped));
  print(self_test_summary(test) + "\n");
}

}  // namespace

void declare_compare(CLI::App& app, CompareOptions& options) {
  Flags flags(app);
  flags.argument("GOLDEN", options.golden, "reference: a .npy or .npz file, a directory or a run");
  flags.optional("OUT", options.out,
                 "what to compare with GOLDEN; the same kind; absent for --self-test");
  flags.value("--rtol", "R", options.relative, "relative tolerance for floats, times |GOLDEN|");
  flags.value("--atol", "A", options.absolute, "absolute tolerance for floats");
  flags.many("--tol", "GLOB=R,A", options.tolerances,
             "both tolerances for matching arrays of any dtype; the last match wins; repeatable");
  flags.many("--ignore", "GLOB", options.ignored,
             "skip matching arrays, including those on one side only; repeatable");
  flags.flag("--strict", options.strict,
             "fail on mistrusted arrays, too; of --self-test, on a fault that passes");
  flags.flag("--self-test", options.self_test,
             "put faults into GOLDEN and list those that the tolerances let through");
  flags.flag("--first", options.first,
             "of two runs with fingerprints: find the first step and tensor that differ, and run "
             "both again up to there");
  flags.value("-o,--output", "DIR", options.output,
              "of --first: directory for the arrays; default: the next free runs/first-NNN");
  flags.flag("--no-rerun", options.no_rerun, "of --first: run nothing again");
  flags.value("--json", "FILE", options.json, "write a JSON report; `-` is standard output");
  flags.value("--junit", "FILE", options.junit, "write a JUnit report; `-` is standard output");
  flags.value("--md", "FILE", options.markdown, "write a Markdown report; `-` is standard output");
  flags.flag("--md-append", options.append, "append the Markdown report instead of replacing FILE");
  flags.flag("--brief", options.brief, "list only arrays that fail or are mistrusted");
}

int run_compare(const CompareOptions& options) {
  if (options.no_rerun || options.output)
    throw RequestError(fmt::format("{} requires --first", options.output ? "-o" : "--no-rerun"),
                       "add --first, or omit it");
  if (options.out.empty())
    throw RequestError("OUT is required", "name what to compare with GOLDEN, or add --self-test");
  for (const std::string& path : {options.golden, options.out}) check_kind(path);
  check_diff_reports(options);
  const Side golden = compare::list_side(options.golden), out = compare::list_side(options.out);
  compare::require_same_kind(golden, out);
  FolderTolerances folder(golden);
  const compare::ToleranceRules rules = rules_of(options, folder.rules());
  const std::vector<std::string> names = names_of(golden, out);
  if (!folder.check(names)) return kRequestWrong;
  check_globs(options, names);
  const DiffReport report = compare_all(options, golden, out, rules);
  write_reports(options, report);
  return exit_status_of(report);
}

int run_self_test(const CompareOptions& options) {
  check_options(options);
  const compare::Side golden = compare::list_side(options.golden);
  std::vector<std::string> names;
  for (const auto& [name, path] : golden.arrays) names.push_back(name);
  FolderTolerances folder(golden);
  const compare::ToleranceRules rules = rules_of(options, folder.rules());
  if (!folder.check(names)) return kRequestWrong;
  check_globs(options, names);
  const compare::SelfTest test = compare::test_tolerances(golden, rules, options.ignored);
  if (test.injected == 0)
    throw RequestError(fmt::format("{} has no array to put a fault into", options.golden),
                       "name a run or a directory with arrays of two elements or more");
  const bool to_output =
      write_diff_reports(options, {[&] { return self_test_json(options.golden, test); },
                                   [&] { return self_test_junit(test, options.strict); },
                                   [&] { return self_test_markdown(test); }});
  if (!to_output) print_result(test);
  return options.strict && !test.missed.empty() ? kCheckFailed : kDone;
}

}  // namespace flow::cli
