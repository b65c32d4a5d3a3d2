// The op or network that an entry of a resolved file calls.
#pragma once

#include <optional>
#include <string>

#include "compiler/yaml/tree.h"
#include "ops/core/spec.h"

namespace flow::job {

/// A built-in op, or a network of the file; neither where variables hide which.
struct Callee {
  const ops::OpSpec* op = nullptr;
  const yaml::Node* network = nullptr;
};

Callee callee_of(const yaml::Node& file, const yaml::Node& entry);

/// Whether an attribute sets the initial value or training of variables, not what the entry
/// computes. An entry with shared variables cannot have it.
inline bool is_of_variables(const ops::AttributeSpec& def) {
  return def.type == ops::AttributeType::kInitializer ||
         def.type == ops::AttributeType::kRegularizer;
}

/// What the first entry of a network reads, where that is clear.
std::optional<std::string> only_input(const yaml::Node& network);
/// Does the entry read the one above it by default, without `in:`?
bool reads_above_by_default(const yaml::Node& file, const yaml::Node& entry);
/// The same, for an entry without `in:`.
bool reads_above(const yaml::Node& file, const yaml::Node& entry);
/// Adds `in:` behind `op:`.
void say_what_is_read(yaml::Node& entry, const std::string& name);

}  // namespace flow::job
