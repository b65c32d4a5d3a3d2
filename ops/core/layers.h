// The attributes that all layers with a kernel have.
#pragma once

#include <utility>
#include <vector>

#include "ops/core/spec.h"

namespace flow::ops {

/// The layer's own attributes, then activation, use_bias, initializers and regularizers.
inline std::vector<AttributeSpec> with_kernel_attributes(std::vector<AttributeSpec> attributes) {
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

}  // namespace flow::ops
