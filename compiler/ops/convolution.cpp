// Convolutions of images: the primitive and its two gradients.
#include <fmt/format.h>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "compiler/ops/windows.h"

namespace flow::defs {
namespace {

using ir::kMixedRows;
using ir::kNoRows;
using Integers = std::vector<int64_t>;

constexpr WindowNames kPrimitiveNames = {"weight", "kernel"};

/// What the convolution and its gradients share: shapes [N, C, H, W] and [O, C/g, kh, kw].
/// Normalises strides, dilation and padding; returns the shape of the convolution's result.
std::optional<Shape> convolved(Inference& inference, const Shape& x, const Shape& weight) {
  const int64_t groups = inference.attribute<int64_t>("groups");
  if (!groups_fit(inference, x[1], weight[0], groups)) return {};
  if (weight[1] != x[1] / groups) {
    inference.bad_op(Diagnosis::kShapeMismatch,
                     fmt::format("the weight {} does not fit {} channels in {} groups",
                                 weight.str(), x[1], groups));
    return {};
  }
  const auto strides = pair_of(inference, "strides", inference.attribute<Integers>("strides"));
  const auto dilation = pair_of(inference, "dilation", inference.attribute<Integers>("dilation"));
  if (!strides || !dilation) return {};
  const auto placed =
      place_windows(inference, {x[2], x[3]}, {{weight[2], weight[3]}, *strides, *dilation},
                    inference.attribute("padding"), kPrimitiveNames);
  if (!placed) return {};
  inference.normalise("strides", Integers(strides->begin(), strides->end()));
  inference.normalise("dilation", Integers(dilation->begin(), dilation->end()));
  inference.normalise("padding", placed->padding);
  return Shape{x[0], weight[0], placed->count[0], placed->count[1]};
}

void infer_convolution(Inference& inference) {
  if (!has_rank(inference, 0, 4, "(N, C, H, W)") ||
      !has_rank(inference, 1, 4, "(O, C/groups, kh, kw)") || !inference.same_dtype())
    return;
  if (const auto y = convolved(inference, inference.shape(0), inference.shape(1)))
    inference.result(inference.number(), *y, rows_before(inference.operand(0).rows, 1));
}

/// dy must be of the shape that the convolution makes of these.
bool is_result(Inference& inference, size_t dy, const Shape& x, const Shape& weight) {
  const auto y = convolved(inference, x, weight);
  return y && have_shape(inference, dy, dy + 1, *y);
}

void infer_convolution_grad_data(Inference& inference) {
  const auto x = four_extents(inference, "input_shape");
  if (!x || !has_rank(inference, 0, 4, "(N, O, H, W)") ||
      !has_rank(inference, 1, 4, "(O, C/groups, kh, kw)") || !inference.same_dtype() ||
      !is_result(inference, 0, *x, inference.shape(1)))
    return;
  inference.result(inference.number(), *x, rows_before(inference.operand(0).rows, 1));
}

void infer_convolution_grad_weight(Inference& inference) {
  const auto weight = four_extents(inference, "weight_shape");
  if (!weight || !has_rank(inference, 0, 4, "(N, C, H, W)") ||
      !has_rank(inference, 1, 4, "(N, O, H, W)") || !inference.same_dtype() ||
      !is_result(inference, 1, inference.shape(0), *weight))
    return;
  const bool rows = inference.operand(0).rows != kNoRows || inference.operand(1).rows != kNoRows;
  inference.result(inference.number(), *weight, rows ? kMixedRows : kNoRows);
}

/// The gradient of operand i by a convolution of the same windows, or one of its gradients, which
/// has operand i's shape.
ir::ValueId same_windows(GradientContext& context, std::string_view op, size_t i,
                         std::vector<ir::ValueId> operands, std::string_view shape_name = {}) {
  const auto same = [&](const char* name) {
    return ir::Attributes::Entry{name, *context.node.attributes.find(name)};
  };
  if (shape_name.empty())
    return context.add(op, i, std::move(operands),
                       {same("strides"), same("padding"), same("dilation"), same("groups")});
  const Shape shape = context.value_of(context.operand(i)).shape;
  return context.add(op, i, std::move(operands),
                     {same("strides"),
                      same("padding"),
                      same("dilation"),
                      same("groups"),
                      {std::string(shape_name), shape.extents()}});
}

/// Input first, so that the weight is read no more when its own gradient is made.
std::vector<ir::ValueId> convolution_gradient(GradientContext& context) {
  const ir::ValueId x = context.operand(0), weight = context.operand(1), dy = context.gradient();
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0])
    gradients[0] = same_windows(context, "convolution_grad_data", 0, {dy, weight}, "input_shape");
  if (context.wanted[1])
    gradients[1] = same_windows(context, "convolution_grad_weight", 1, {x, dy}, "weight_shape");
  return gradients;
}

/// Of a transposed convolution, which is the gradient of another: that one is its own gradient.
std::vector<ir::ValueId> grad_data_gradient(GradientContext& context) {
  const ir::ValueId x = context.operand(0), weight = context.operand(1), dy = context.gradient();
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = same_windows(context, "convolution", 0, {dy, weight});
  if (context.wanted[1])
    gradients[1] = same_windows(context, "convolution_grad_weight", 1, {dy, x}, "weight_shape");
  return gradients;
}

/// Of the primitive and its gradients, all normalised.
std::vector<AttributeDef> convolution_attributes() {
  return {sizes_attribute("strides", "1", "step between windows, in elements"),
          {"padding", AttributeType::kPadding, "valid", "top, bottom, left, right"},
          sizes_attribute("dilation", "1", "spacing between kernel elements; 1 is dense"),
          groups_attribute()};
}

std::vector<AttributeDef> gradient_attributes(std::string_view shape, std::string_view doc) {
  std::vector<AttributeDef> attributes = convolution_attributes();
  attributes.push_back(sizes_attribute(shape, "", doc));
  return attributes;
}

}  // namespace

std::span<const OpDef> convolution() {
  static const OpDef kOps[] = {
      {
          .name = "convolution",
          .doc = "2D cross-correlation of images with a weight.",
          .formula = "y[n, o, i, j] = sum x[n, c, i s + u d - pad, j s + v d - pad] w[o, c, u, v]",
          .operands = {{"x", "(N, C, H, W)"}, {"weight", "(O, C/groups, kh, kw)"}},
          .attributes = convolution_attributes(),
          .infer = infer_convolution,
          .gradient = convolution_gradient,
          .internal = true,
          .examples = {"convolution(f32[2,3,8,7], f32[4,3,3,3])",
                       "convolution(f32[2,4,9,9], f32[6,2,3,3]) strides=2 padding=same groups=2",
                       "convolution(f32[1,2,8,8], f32[3,2,2,3]) dilation=2 padding=[1,0,2,1]",
                       "convolution(f32[2,1,6,6], f32[5,1,5,5]) padding=same",
                       "convolution(f32[2,4,5,5], f32[4,1,3,3]) groups=4 padding=same_lower"},
      },
      {
          .name = "convolution_grad_data",
          .doc = "Gradient of a convolution with respect to its input.",
          .formula = "dx = transposed convolution of dy",
          .operands = {{"dy", "(N, O, H', W')"}, {"weight", "(O, C/groups, kh, kw)"}},
          .attributes = gradient_attributes("input_shape", "shape of x"),
          .infer = infer_convolution_grad_data,
          .gradient = grad_data_gradient,
          .internal = true,
          .examples = {"convolution_grad_data(f32[2,4,6,5], f32[4,3,3,3]) input_shape=[2,3,8,7]",
                       "convolution_grad_data(f32[2,4,3,3], f32[4,2,3,3]) input_shape=[2,4,6,5] "
                       "strides=2 padding=[0,1,1,1] groups=2"},
      },
      {
          .name = "convolution_grad_weight",
          .doc = "Gradient of a convolution with respect to its weight.",
          .formula =
              "dw[o, c, u, v] = sum x[n, c, i s + u d - pad, j s + v d - pad] dy[n, o, i, j]",
          .operands = {{"x", "(N, C, H, W)"}, {"dy", "(N, O, H', W')"}},
          .attributes = gradient_attributes("weight_shape", "shape of the weight"),
          .infer = infer_convolution_grad_weight,
          .internal = true,
          .examples = {"convolution_grad_weight(f32[2,3,8,7], f32[2,4,6,5]) "
                       "weight_shape=[4,3,3,3]"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
