// The table of ops as people read it: at the terminal and in the README.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/op_def.h"

namespace flow {

/// What `activation:` takes: `none`, and the ops of one operand that need no attribute.
std::vector<std::string> activation_names();
/// Is the default of an attribute of the op that of another, which `text` names?
bool names_attribute(const OpDef& op, std::string_view text);

/// A line for each op that a job file may name: its name and what it does.
std::string list_ops();

/// All that a job file may say of an op: operands, attributes with their defaults, results,
/// formula. `of_entries`: what its entry may say beside, and what that is.
std::string describe(const OpDef& op,
                     std::span<const std::pair<std::string, std::string>> of_entries);

/// The same of all ops as a table in Markdown.
std::string ops_table();

}  // namespace flow
