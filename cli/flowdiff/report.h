// The results of flowdiff as text for people and for programs, and the words and number formats
// that all of its reports share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/compare.h"
#include "runtime/compare/run_plan.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

/// The report that flowdiff writes and `flowc report` reads.
struct DiffReport {
  std::string golden, out;  // as given on the command line
  bool strict = false;      // true if mistrusted arrays fail
  compare::Comparison comparison = {};
  std::optional<compare::FirstDifference> first = {};
  std::vector<std::string> data = {};  // differences of the data files, one per line
  std::string plans = {};  // differences between the plans of two runs; empty if they are equal
  std::vector<std::string> notes = {};  // from golden.json
};

/// The outcome of a comparison. kUnreadable means that every failed array is unreadable.
enum class Outcome { kPassed, kMistrusted, kFailed, kUnreadable, kNothingCompared };
Outcome outcome_of(const DiffReport& report);
/// Returns the name of an outcome, such as "passed" or "nothing compared".
const char* name_of(Outcome outcome);

/// Returns an aligned table with one array per line, followed by the reasons for failed arrays and
/// a summary line. With `brief`, lists only arrays that fail or are mistrusted.
std::string diff_table(const compare::Comparison& comparison, bool brief, bool color);

/// Returns a text such as "8 arrays: 5 equal, 2 within tolerance, 1 differs; 3 ignored".
std::string diff_summary(const compare::Comparison& comparison);

/// Returns the lines below the table: the first computed difference, plans, and notes.
std::vector<std::string> closing_lines(const DiffReport& report);

/// Returns one JSON object in which numbers that are not finite become null.
std::string diff_json(const DiffReport& report);
/// Reads the output of diff_json. Throws RequestError if the JSON has another format or contradicts
/// itself.
DiffReport read_diff_json(const Json& json);

/// Returns a JUnit test suite with one case per array.
std::string diff_junit(const DiffReport& report);

/// Returns a summary and a table of at most 20 arrays that fail or are mistrusted, with collapsed
/// details. The text is short enough for a comment on a pull request.
std::string diff_markdown(const DiffReport& report);

/// Returns the name of a verdict in tables and in JSON, such as "differs".
const char* name_of_verdict(compare::Verdict verdict);
/// Returns the verdict with the given name, or nothing if there is none.
std::optional<compare::Verdict> verdict_named(const std::string& name);

/// Returns true if the figures of the comparison are meaningful.
bool was_compared(const compare::ArrayDifference& array);

/// Returns the number of elements beyond the tolerance, such as "3", or "-" for an array that was
/// not compared or not judged.
std::string over_text(const compare::ArrayDifference& array);

/// Formats an error as "1.44e-01" or "0". Returns "-" for an array that was not compared or not
/// judged.
std::string error_text(const compare::ArrayDifference& array, double error);

/// Returns a text such as "constant offset of 0.25 (99.8 % of the squared error)".
std::string look_text(const compare::Look& look);

/// Returns the reasons why an array fails or is mistrusted, one sentence each.
std::vector<std::string> reasons(const compare::ArrayDifference& array);

/// Returns the reason that fits into a cell: a description of the difference, or its first place.
std::string main_reason(const compare::ArrayDifference& array);

}  // namespace flow::cli
