// What is done to a whole file: variables put in, as far as that can be without calling its
// networks; calls looked up; defaults written out, or left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/text/reader.h"
#include "compiler/job/text/vars.h"
#include "compiler/yaml/tree.h"
#include "ops/core/spec.h"

namespace flow::job {

/// Substitutes variables outside graphs, which have more names.
void put_in(Variables& variables, yaml::Node& file);

/// Puts them into graphs too. What needs a param or `$index` stays as it is written, and so do the
/// `vars:` that it uses; the others go. An entry that reads the one above it says so where that is
/// another one in `file` now. Errors are those that reading the file reports.
void resolve(Reader& reader, yaml::Node& file);

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
/// Adds `in:` after `op:`.
void say_what_is_read(yaml::Node& entry, const std::string& name);

/// Adds every key whose default can be written. What depends on shapes, on names or on the number
/// of rows stays out. REQUIRES: the file has no errors.
void write_defaults(Reader& reader, yaml::Node& file);

/// Removes every key that equals its default, and shortens values that have a shorter form.
void drop_defaults(Reader& reader, yaml::Node& file);

/// Is the default one that a file cannot write? "-inf", or worked out: "1/sqrt(D)".
bool is_unwritable(const ops::AttributeSpec& def);

}  // namespace flow::job
