// Specifications of layers that multiply by weights: fully connected layers and convolutions.
#include <utility>
#include <vector>

#include "ops/core/families.h"
#include "ops/core/windows.h"

namespace flow::ops {
namespace {

/// Returns the given attributes, followed by the activation, use_bias, the initializers and the
/// regularizers.
std::vector<AttributeSpec> with_kernel_attributes(std::vector<AttributeSpec> attributes) {
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

AttributeSpec filters_attribute() {
  AttributeSpec spec = sizes_attribute("filters", "", "number of output channels");
  spec.type = AttributeType::kInteger;
  return spec;
}

std::vector<AttributeSpec> conv_attributes(int dimensions) {
  return {filters_attribute(),
          sizes_attribute("kernel_size", "",
                          dimensions == 3 ? "kernel depth, height and width, or one number for all"
                          : dimensions == 1 ? "kernel length"
                                            : "kernel height and width, or one number for both"),
          sizes_attribute("strides", "1", "step between windows, in elements"),
          padding_attribute(dimensions),
          sizes_attribute("dilation_rate", "1", "spacing between kernel elements; 1 is dense"),
          groups_attribute()};
}

std::vector<AttributeSpec> transposed_conv_attributes(int dimensions) {
  std::vector<AttributeSpec> attributes = conv_attributes(dimensions);
  attributes.push_back(sizes_attribute("output_padding", "0",
                                       dimensions == 1
                                           ? "elements to add at the end"
                                           : "rows and columns to add at the bottom and right"));
  attributes.back().min = 0;
  return attributes;
}

}  // namespace

std::vector<OpSpec> linear_layers() {
  return {
      {.name = "dense",
       .doc = "Fully connected layer with weight (units, in), optional bias and activation.",
       .formula = "y = activation(x W^T + b)",
       .operands = {{"in", "(batch, ..., in)"}},
       .attributes =
           with_kernel_attributes({count_attribute("units", "number of output features")}),
       .takes_variables = true},
      {.name = "conv1d",
       .doc = "1D convolution layer with weight (filters, C/groups, k), optional bias and "
              "activation.",
       .formula = "y = activation(x * W + b)",
       .operands = {{"in", "(N, C, L)"}},
       .attributes = with_kernel_attributes(conv_attributes(1)),
       .takes_variables = true},
      {.name = "conv2d",
       .doc = "2D convolution layer with weight (filters, C/groups, kh, kw), optional bias and "
              "activation.",
       .formula = "y = activation(x * W + b)",
       .operands = {{"in", "(N, C, H, W)"}},
       .attributes = with_kernel_attributes(conv_attributes(2)),
       .takes_variables = true},
      {.name = "conv2d_transpose",
       .doc = "Transposed 2D convolution layer with weight (C, filters/groups, kh, kw), "
              "optional bias and activation.",
       .formula = "y = activation(x *^T W + b)",
       .operands = {{"in", "(N, C, H, W)"}},
       .attributes = with_kernel_attributes(transposed_conv_attributes(2)),
       .takes_variables = true},
      {.name = "conv3d",
       .doc = "3D convolution layer with weight (filters, C/groups, kd, kh, kw), optional bias "
              "and activation.",
       .formula = "y = activation(x * W + b)",
       .operands = {{"in", "(N, C, D, H, W)"}},
       .attributes = with_kernel_attributes(conv_attributes(3)),
       .takes_variables = true},
      {.name = "conv1d_transpose",
       .doc = "Transposed 1D convolution layer with weight (C, filters/groups, k), optional "
              "bias and activation.",
       .formula = "y = activation(x *^T W + b)",
       .operands = {{"in", "(N, C, L)"}},
       .attributes = with_kernel_attributes(transposed_conv_attributes(1)),
       .takes_variables = true},
  };
}

}  // namespace flow::ops
