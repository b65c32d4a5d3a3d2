// Values as a file would write them, and when two of them are the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/yaml/tree.h"
#include "ops/core/spec.h"

namespace flow::job {

/// Are both values equal? Numbers are compared by value.
bool same_value(const yaml::Node& a, const yaml::Node& b);

/// Is the default one that a file cannot write? "-inf", or worked out: "1/sqrt(D)".
bool is_unwritable(const ops::AttributeSpec& def);

/// The default of an attribute that is absent from `entry`; nothing if it cannot be written.
std::optional<yaml::Node> default_of(const ops::OpSpec& op, const ops::AttributeSpec& def,
                                     const yaml::Node& entry);

/// Inserts a key after those that precede it in `order`. Without such keys: before those that
/// follow it, or at the end.
void insert_key(yaml::Node& mapping, std::string_view key, yaml::Node value,
                const std::vector<std::string>& order);

}  // namespace flow::job
