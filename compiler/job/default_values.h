// Values as a file would write them, and when two of them are the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/yaml/tree.h"

namespace flow::job {

/// Do both say the same, numbers by their values?
bool same_value(const yaml::Node& a, const yaml::Node& b);

/// Is the default one that a file cannot write? "-inf", or worked out: "1/sqrt(D)".
bool is_unwritable(const AttributeDef& def);

/// What stands for an attribute that is absent from `entry`; nothing where no text does.
std::optional<yaml::Node> default_of(const OpDef& op, const AttributeDef& def,
                                     const yaml::Node& entry);

/// Adds a key behind those that stand before it in `order`; where there are none, before those
/// behind it, or at the end.
void insert_key(yaml::Node& mapping, std::string_view key, yaml::Node value,
                const std::vector<std::string>& order);

}  // namespace flow::job
