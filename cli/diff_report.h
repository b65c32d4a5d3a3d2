// What flowdiff found, as text for people and for programs.
#pragma once

#include <optional>
#include <string>

#include "runtime/exec/checkpoint/first_difference.h"
#include "runtime/io/compare.h"

namespace flow::cli {

/// An aligned table, a line an array, what is wrong with those that fail below them, and a last
/// line that sums up. `brief`: those that fail only.
std::string diff_table(const io::Comparison& comparison, bool brief, bool color);

/// "8 arrays: 5 equal, 2 within tolerance, 1 differs; 3 ignored"
std::string diff_summary(const io::Comparison& comparison);

/// "first difference in computation order: watch/lenet/conv1/value, at step 20"
std::string first_text(const exec::FirstDifference& first);

/// One JSON object; what is not finite is null.
std::string diff_json(const io::Comparison& comparison, const std::string& golden,
                      const std::string& out, const std::optional<exec::FirstDifference>& first);

/// A JUnit test suite, a case an array.
std::string diff_junit(const io::Comparison& comparison,
                       const std::optional<exec::FirstDifference>& first);

/// A Markdown table, the summary, and what was computed first.
std::string diff_markdown(const io::Comparison& comparison,
                          const std::optional<exec::FirstDifference>& first);

}  // namespace flow::cli
