// Words and numbers that all reports of flowdiff share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/compare.h"

namespace flow::cli {

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

/// Text within a line or a cell of Markdown, escaped.
std::string markdown_text(const std::string& text);

/// Lines inside an XML element, each with its end.
std::string xml_lines(const std::vector<std::string>& lines);

/// Why an array fails or is mistrusted, a sentence each.
std::vector<std::string> reasons(const compare::ArrayDifference& array);

/// The one that a cell has room for: what the difference looks like, or where it begins.
std::string main_reason(const compare::ArrayDifference& array);

}  // namespace flow::cli
