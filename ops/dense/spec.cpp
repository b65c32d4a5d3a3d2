// The record of fully connected layers.
#include "ops/core/families.h"
#include "ops/core/layers.h"

namespace flow::ops {

std::span<const OpSpec> dense() {
  static const OpSpec kOps[] = {{
      .name = "dense",
      .doc = "Fully connected layer with weight (units, in), optional bias and activation.",
      .formula = "y = activation(x W^T + b)",
      .operands = {{"in", "(batch, ..., in)"}},
      .attributes = with_kernel_attributes({{.name = "units",
                                             .type = AttributeType::kInteger,
                                             .fallback = "",
                                             .doc = "number of output features",
                                             .min = 1,
                                             .max = static_cast<double>(kMaxSize)}}),
      .takes_variables = true,
  }};
  return kOps;
}

}  // namespace flow::ops
