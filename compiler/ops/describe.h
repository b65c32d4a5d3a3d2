// The table of ops as people read it: at the terminal and in the README.
#pragma once

#include <string>

#include "compiler/ops/op_def.h"

namespace flow {

/// A line for each op that a job file may name: its name and what it does.
std::string list_ops();

/// All that a job file may say of an op: operands, attributes with their defaults, results,
/// formula.
std::string describe(const OpDef& op);

/// The same of all ops as a table in Markdown.
std::string ops_table();

}  // namespace flow
