// What flowdiff found, as text for people and for programs, and words and numbers that all its
// reports share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/compare.h"
#include "runtime/compare/run_plan.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

/// What flowdiff writes, and what `flowc report` reads.
struct DiffReport {
  std::string golden, out;  // as given
  bool strict = false;      // mistrusted arrays fail
  compare::Comparison comparison = {};
  std::optional<compare::FirstDifference> first = {};
  std::vector<std::string> data = {};   // how the data files of two runs differ, a line each
  std::string plans = {};               // how the plans of two runs differ; empty: not at all
  std::vector<std::string> notes = {};  // of golden.json
};

/// What a comparison comes to. kUnreadable: all that failed cannot be read.
enum class Outcome { kPassed, kMistrusted, kFailed, kUnreadable, kNothingCompared };
Outcome outcome_of(const DiffReport& report);
/// "passed", "nothing compared"
const char* name_of(Outcome outcome);

/// An aligned table, a line an array, what is wrong with those that fail below them, and a last
/// line that sums up. `brief`: those that fail or are mistrusted only.
std::string diff_table(const compare::Comparison& comparison, bool brief, bool color);

/// "8 arrays: 5 equal, 2 within tolerance, 1 differs; 3 ignored"
std::string diff_summary(const compare::Comparison& comparison);

/// The lines below the table: what was computed first, plans, notes.
std::vector<std::string> closing_lines(const DiffReport& report);

/// One JSON object; what is not finite is null.
std::string diff_json(const DiffReport& report);
/// What diff_json wrote. RequestError where it is something else, or contradicts itself.
DiffReport read_diff_json(const Json& json);

/// A JUnit test suite, a case an array.
std::string diff_junit(const DiffReport& report);

/// A summary and a table of at most 20 arrays that fail or are mistrusted, with details that are
/// folded away: short enough for a comment on a pull request.
std::string diff_markdown(const DiffReport& report);

/// In a table and in JSON: "differs".
const char* name_of_verdict(compare::Verdict verdict);
/// The verdict of that name; nothing where there is none.
std::optional<compare::Verdict> verdict_named(const std::string& name);

/// Do the figures of a comparison mean anything?
bool was_compared(const compare::ArrayDifference& array);

/// Elements beyond the tolerance: "3", "-" of an array that was not compared or not judged.
std::string over_text(const compare::ArrayDifference& array);

/// "1.44e-01", "0", "-" of an array that was not compared or not judged.
std::string error_text(const compare::ArrayDifference& array, double error);

/// "constant offset of 0.25 (99.8 % of the squared error)"
std::string look_text(const compare::Look& look);

/// Why an array fails or is mistrusted, a sentence each.
std::vector<std::string> reasons(const compare::ArrayDifference& array);

/// The one that a cell has room for: what the difference looks like, or where it begins.
std::string main_reason(const compare::ArrayDifference& array);

}  // namespace flow::cli
