// Describes the ops for readers at the terminal.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/spec.h"

namespace flow {

/// Returns the values of `activation:`: `none`, and the ops with one float operand and no required
/// attribute.
const std::vector<std::string>& activation_names();

/// Returns the type of an attribute, such as "valid | same" or "integer >= 1".
std::string attribute_type(const ops::AttributeSpec& attribute);

/// Returns the type of an operand, such as "list of float" or "integer (optional)".
std::string operand_type(const ops::OperandSpec& operand);

/// Returns one line for each op that a job file may use: its name and what it does.
std::string list_ops();

/// Returns everything that a job file may write for an op: operands, attributes with their
/// defaults, results, and the formula. `of_entries` lists the other keys of an entry with this op,
/// and their descriptions.
std::string describe(const ops::OpSpec& op,
                     std::span<const std::pair<std::string, std::string>> of_entries);

}  // namespace flow
