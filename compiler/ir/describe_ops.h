// The table of ops as people read it at the terminal.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/spec.h"

namespace flow {

/// What `activation:` takes: `none`, and the ops of one float operand that need no attribute.
const std::vector<std::string>& activation_names();

/// "valid | same", "integer >= 1"
std::string attribute_type(const ops::AttributeSpec& attribute);

/// "list of float", "integer (optional)"
std::string operand_type(const ops::OperandSpec& operand);

/// A line for each op that a job file may name: its name and what it does.
std::string list_ops();

/// All that a job file may say of an op: operands, attributes with their defaults, results,
/// formula. `of_entries`: what its entry may say beside, and what that is.
std::string describe(const ops::OpSpec& op,
                     std::span<const std::pair<std::string, std::string>> of_entries);

}  // namespace flow
