// What all layers with a kernel have: attributes, and an activation at the end.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/op_def.h"

namespace flow {

/// The layer's own attributes, then activation, use_bias, initializers and regularizers.
inline std::vector<AttributeDef> with_kernel_attributes(std::vector<AttributeDef> attributes) {
  attributes.push_back(
      {"activation", AttributeType::kActivation, "none", "activation to apply to the result"});
  attributes.push_back({"use_bias", AttributeType::kBool, "true", "add a bias"});
  attributes.push_back({"kernel_initializer", AttributeType::kInitializer, "glorot_uniform",
                        "initial value of the weight"});
  attributes.push_back(
      {"bias_initializer", AttributeType::kInitializer, "zeros", "initial value of the bias"});
  attributes.push_back({"kernel_regularizer", AttributeType::kRegularizer, "none",
                        "L1 or L2 penalty on the weight"});
  attributes.push_back(
      {"bias_regularizer", AttributeType::kRegularizer, "none", "L1 or L2 penalty on the bias"});
  return attributes;
}

/// The activation and `restore`, which gives the result its shape: an elementwise activation comes
/// first, where it can be fused.
template <typename Restore>
ir::ValueId activate_and_restore(const LayerContext& context, ir::ValueId y, Restore restore) {
  const OpDef* op = find_op(context.attributes.get<std::string>("activation"));
  return op && op->elementwise ? restore(context.activate(y)) : context.activate(restore(y));
}

}  // namespace flow
