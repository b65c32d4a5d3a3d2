// The records of convolutions of images: the primitive and its two gradients.
#include <algorithm>

#include "ops/core/families.h"
#include "ops/core/windows.h"

namespace flow::ops {
namespace {

constexpr WindowNames kPrimitiveNames = {"weight", "kernel"};

/// The tensors of a convolution and of its gradients: `x` (N, C, H, W) with `weight` (O, C/g, kh,
/// kw) gives `y`.
struct Convolved {
  Shape x, weight, y;
  Windows windows;
};

/// Returns the convolution of two shapes of rank 4. Reports shapes and attributes that do not fit
/// together.
std::optional<Convolved> convolved(Call& call, const Shape& x, const Shape& weight) {
  const auto groups = call.attribute<int64_t>("groups");
  if (!groups_fit(call, x[1], weight[0], groups)) return {};
  if (weight[1] != x[1] / groups) {
    call.bad_call(Reason::kShapeMismatch,
                  fmt::format("the weight {} does not fit {} channels in {} groups", weight.str(),
                              x[1], groups));
    return {};
  }
  const auto strides = sizes_of(call, "strides");
  const auto dilation = sizes_of(call, "dilation");
  if (!strides || !dilation) return {};
  Windows windows = {{weight[2], (*strides)[0], (*dilation)[0]},
                     {weight[3], (*strides)[1], (*dilation)[1]}};
  if (!place_windows(call, {x[2], x[3]}, kPrimitiveNames, windows)) return {};
  return Convolved{x, weight, {x[0], weight[0], windows[0].count, windows[1].count}, windows};
}

std::optional<Convolved> read_convolution(Call& call) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)") || !has_rank(call, 1, 4, "(O, C/groups, kh, kw)") ||
      !call.same_dtype())
    return {};
  return convolved(call, call.shape(0), call.shape(1));
}

std::optional<Convolved> read_convolution_grad_data(Call& call) {
  const auto x = four_extents(call, "input_shape");
  if (!x || !has_rank(call, 0, 4, "(N, O, H, W)") ||
      !has_rank(call, 1, 4, "(O, C/groups, kh, kw)") || !call.same_dtype())
    return {};
  return convolved(call, *x, call.shape(1));
}

std::optional<Convolved> read_convolution_grad_weight(Call& call) {
  const auto weight = four_extents(call, "weight_shape");
  if (!weight || !has_rank(call, 0, 4, "(N, C, H, W)") || !has_rank(call, 1, 4, "(N, O, H, W)") ||
      !call.same_dtype())
    return {};
  return convolved(call, call.shape(0), *weight);
}

void set_windows(Attributes& attributes, const std::optional<Convolved>& of) {
  if (!of) return;
  attributes.set("strides", each_of(of->windows, &AxisWindows::stride));
  attributes.set("dilation", each_of(of->windows, &AxisWindows::dilation));
  attributes.set("padding", pads_of(of->windows));
}

void normalize_convolution(Call& call, Attributes& attributes) {
  set_windows(attributes, read_convolution(call));
}

void normalize_convolution_grad_data(Call& call, Attributes& attributes) {
  set_windows(attributes, read_convolution_grad_data(call));
}

void normalize_convolution_grad_weight(Call& call, Attributes& attributes) {
  set_windows(attributes, read_convolution_grad_weight(call));
}

/// Returns the batch axis of the result of images (operand 0) and the weight. If the weight has
/// rows, the result combines them.
int batch_of_images(const Call& call) {
  return common_batch(batch_before(call.operand(0).batch_axis, 1),
                      batch_before(call.operand(1).batch_axis, 0));
}

void infer_convolution(Call& call) {
  if (const auto of = read_convolution(call))
    call.result(call.compute_dtype(), of->y, batch_of_images(call));
}

void infer_convolution_grad_data(Call& call) {
  const auto of = read_convolution_grad_data(call);
  if (of && call.have_shape(0, 1, of->y))
    call.result(call.compute_dtype(), of->x, batch_of_images(call));
}

void infer_convolution_grad_weight(Call& call) {
  const auto of = read_convolution_grad_weight(call);
  if (!of || !call.have_shape(1, 2, of->y)) return;
  const int images = common_batch(call.operand(0).batch_axis, call.operand(1).batch_axis);
  call.result(call.compute_dtype(), of->weight, batch_before(images, 0),
              images == 0 ? Combine::kSum : Combine::kNone);
}

/// The attributes of the primitive and its gradients, all of them normalized.
std::vector<AttributeSpec> convolution_attributes() {
  return {sizes_attribute("strides", "1", "step between windows, in elements"),
          {"padding", AttributeType::kPadding, "valid", "top, bottom, left, right"},
          sizes_attribute("dilation", "1", "spacing between kernel elements; 1 is dense"),
          groups_attribute()};
}

std::vector<AttributeSpec> convolution_gradient_attributes(std::string_view shape,
                                                           std::string_view doc) {
  std::vector<AttributeSpec> attributes = convolution_attributes();
  attributes.push_back(sizes_attribute(shape, "", doc));
  return attributes;
}

OperandSpec activations(std::string_view name, std::string_view doc) {
  return {.name = name, .doc = doc, .low_precision = true, .images = Images::kActivations};
}

OperandSpec filters() {
  return {.name = "weight",
          .doc = "(O, C/groups, kh, kw)",
          .low_precision = true,
          .images = Images::kFilters};
}

/// Each element of the output needs one multiply-add for each weight of its filter.
double flops_of(const Shape& output, const Shape& weight) {
  return 2 * static_cast<double>(output.elements()) * static_cast<double>(weight.elements()) /
         std::max(1.0, static_cast<double>(weight[0]));
}

double convolution_flops(std::span<const Shape> operands, const Shape& result, const Attributes&) {
  return flops_of(result, operands[1]);
}

double convolution_grad_data_flops(std::span<const Shape> operands, const Shape&,
                                   const Attributes&) {
  return flops_of(operands[0], operands[1]);
}

double convolution_grad_weight_flops(std::span<const Shape> operands, const Shape& result,
                                     const Attributes&) {
  return flops_of(operands[1], result);
}

}  // namespace

std::vector<OpSpec> convolution() {
  return {
      {.name = "convolution",
       .doc = "2D cross-correlation of images with a weight.",
       .formula = "y[n, o, i, j] = sum x[n, c, i s + u d - pad, j s + v d - pad] w[o, c, u, v]",
       .operands = {activations("x", "(N, C, H, W)"), filters()},
       .attributes = convolution_attributes(),
       .results = {{.name = "out", .images = Images::kActivations}},
       .normalize = normalize_convolution,
       .infer = infer_convolution,
       .product = true,
       .linear = {0, 1},
       .takes = {Epilogue::kBias, Epilogue::kRelu, Epilogue::kCast},
       .bias_axis = 1,
       .layer = "conv2d",
       .flops = {.product = convolution_flops},
       .internal = true,
       .examples = {"convolution(f32[2,3,8,7], f32[4,3,3,3])",
                    "convolution(f32[2,4,9,9], f32[6,2,3,3]) strides=2 padding=same groups=2",
                    "convolution(f32[1,2,8,8], f32[3,2,2,3]) dilation=2 padding=[1,0,2,1]",
                    "convolution(f32[2,1,6,6], f32[5,1,5,5]) padding=same",
                    "convolution(f32[2,4,5,5], f32[4,1,3,3]) groups=4 padding=same_lower"}},
      {.name = "convolution_grad_data",
       .doc = "Gradient of a convolution with respect to its input.",
       .formula = "dx = transposed convolution of dy",
       .operands = {activations("dy", "(N, O, H', W')"), filters()},
       .attributes = convolution_gradient_attributes("input_shape", "shape of x"),
       .plan_attributes = {extents_of_result("input_shape")},
       .results = {{.name = "out", .images = Images::kActivations}},
       .normalize = normalize_convolution_grad_data,
       .infer = infer_convolution_grad_data,
       .product = true,
       .linear = {0, 1},
       .takes = {Epilogue::kCast},
       .layer = "conv2d_transpose",
       .flops = {.product = convolution_grad_data_flops},
       .internal = true,
       .examples = {"convolution_grad_data(f32[2,4,6,5], f32[4,3,3,3]) input_shape=[2,3,8,7]",
                    "convolution_grad_data(f32[2,4,3,3], f32[4,2,3,3]) input_shape=[2,4,6,5] "
                    "strides=2 padding=[0,1,1,1] groups=2"}},
      {.name = "convolution_grad_weight",
       .doc = "Gradient of a convolution with respect to its weight.",
       .formula = "dw[o, c, u, v] = sum x[n, c, i s + u d - pad, j s + v d - pad] dy[n, o, i, j]",
       .operands = {activations("x", "(N, C, H, W)"), activations("dy", "(N, O, H', W')")},
       .attributes = convolution_gradient_attributes("weight_shape", "shape of the weight"),
       .plan_attributes = {extents_of_result("weight_shape")},
       .results = {{.name = "out", .images = Images::kFilters}},
       .normalize = normalize_convolution_grad_weight,
       .infer = infer_convolution_grad_weight,
       .product = true,
       .linear = {0, 1},
       .flops = {.product = convolution_grad_weight_flops},
       .internal = true,
       .examples = {"convolution_grad_weight(f32[2,3,8,7], f32[2,4,6,5]) "
                    "weight_shape=[4,3,3,3]"}},
  };
}

}  // namespace flow::ops
