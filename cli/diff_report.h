// What flowdiff found, as text for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/compare.h"
#include "runtime/compare/first_difference.h"

namespace flow::cli {

struct DiffReport {
  std::string golden, out;  // as given
  compare::Comparison comparison;
  std::optional<compare::FirstDifference> first;
  std::string plans;               // how the plans of two runs differ; empty: not at all
  std::vector<std::string> notes;  // of golden.json
};

/// An aligned table, a line an array, what is wrong with those that fail below them, and a last
/// line that sums up. `brief`: those that fail or are mistrusted only.
std::string diff_table(const compare::Comparison& comparison, bool brief, bool color);

/// "8 arrays: 5 equal, 2 within tolerance, 1 differs; 3 ignored"
std::string diff_summary(const compare::Comparison& comparison);

/// The lines below the table: what was computed first, plans, notes.
std::vector<std::string> closing_lines(const DiffReport& report);

/// One JSON object; what is not finite is null.
std::string diff_json(const DiffReport& report);

/// A JUnit test suite, a case an array. `strict`: mistrusted arrays fail.
std::string diff_junit(const DiffReport& report, bool strict);

/// A summary and a table of at most 20 arrays that fail or are mistrusted, with details that are
/// folded away: short enough for a comment on a pull request.
std::string diff_markdown(const DiffReport& report);

}  // namespace flow::cli
