// Convolutions of images: the layer, the primitive, and the primitive's two gradients.
#include <fmt/format.h>

#include "compiler/ir/builder.h"
#include "compiler/ops/families.h"
#include "compiler/ops/initializers.h"
#include "compiler/ops/layers.h"
#include "compiler/ops/windows.h"

namespace flow::ops {
namespace {

using ir::kMixedRows;
using ir::kNoRows;
using Integers = std::vector<int64_t>;

constexpr WindowNames kPrimitiveNames = {"weight", "padding", "kernel"};

/// Channels must fall into the groups evenly, on both sides.
bool groups_fit(CallSite& site, int64_t channels, int64_t filters, int64_t groups) {
  for (const auto& [what, count] : {std::pair{"channels", channels}, {"filters", filters}}) {
    if (count % groups == 0) continue;
    site.bad_attribute("groups", Diagnosis::kBadAttribute,
                       fmt::format("{} {} do not fall into {} groups", count, what, groups));
    return false;
  }
  return true;
}

ir::ValueId expand_conv2d(LayerContext& context) {
  CallSite site = context.site();
  if (!has_rank(site, 0, 4, "[N, C, H, W]")) return {};
  const Shape x = context.operand(0).shape;
  const DType dtype = context.operand(0).dtype;
  const auto sizes = [&](std::string_view name) {
    return pair_of(site, name, context.attributes.get<Integers>(name));
  };
  const auto size = sizes("kernel_size"), strides = sizes("strides"),
             dilation = sizes("dilation_rate");
  const int64_t groups = context.attributes.get<int64_t>("groups");
  const int64_t filters = context.attributes.get<int64_t>("filters");
  if (!size || !strides || !dilation || !groups_fit(site, x[1], filters, groups)) return {};
  const auto placed = place_windows(site, {x[2], x[3]}, {*size, *strides, *dilation},
                                    *context.attributes.find("padding"), {});
  if (!placed) return {};

  const Shape weight_shape{filters, x[1] / groups, (*size)[0], (*size)[1]};
  const ir::ValueId weight = context.add_variable("weight", "kernel_initializer", dtype,
                                                  weight_shape, fans_of(weight_shape));
  ir::Attributes attributes;
  attributes.set("strides", Integers(strides->begin(), strides->end()));
  attributes.set("dilation", Integers(dilation->begin(), dilation->end()));
  attributes.set("padding", placed->padding);
  attributes.set("groups", groups);
  ir::ValueId y =
      context.add("convolution", "conv", {context.operands[0], weight}, std::move(attributes));
  if (context.attributes.get<bool>("use_bias")) {
    const ir::ValueId bias =
        context.add_variable("bias", "bias_initializer", dtype, {filters}, fans_of(weight_shape));
    y = context.add("bias_add", "bias_add", {y, bias}, {});
  }
  return context.activate(y);
}

/// What the convolution and its gradients share: shapes [N, C, H, W] and [O, C/g, kh, kw].
/// Normalises strides, dilation and padding; returns the shape of the convolution's result.
std::optional<Shape> convolved(Inference& inference, const Shape& x, const Shape& weight) {
  const int64_t groups = inference.attribute<int64_t>("groups");
  if (!groups_fit(inference, x[1], weight[0], groups)) return {};
  if (weight[1] != x[1] / groups) {
    inference.bad_op(
        Diagnosis::kShapeMismatch,
        fmt::format("a weight of {} for {} channels in {} groups", weight.str(), x[1], groups));
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

/// Images keep their axis, what was summed over images mixes them.
int rows_of_images(int rows) { return rows == 0 || rows == kNoRows ? rows : kMixedRows; }

void infer_convolution(Inference& inference) {
  if (!has_rank(inference, 0, 4, "[N, C, H, W]") ||
      !has_rank(inference, 1, 4, "[O, C/groups, kh, kw]") || !inference.same_dtype())
    return;
  if (const auto y = convolved(inference, inference.shape(0), inference.shape(1)))
    inference.result(inference.operand(0).dtype, *y, rows_of_images(inference.operand(0).rows));
}

std::optional<Shape> four_extents(Inference& inference, std::string_view name) {
  const Shape shape(inference.attribute<Integers>(name));
  if (shape.rank() == 4 && shape.checked_elements()) return shape;
  inference.bad_attribute(name, Diagnosis::kBadAttribute,
                          fmt::format("`{}` has {} extents, it must have 4", name, shape.rank()));
  return {};
}

/// dy must be of the shape that the convolution makes of these.
bool is_result(Inference& inference, size_t dy, const Shape& x, const Shape& weight) {
  const auto y = convolved(inference, x, weight);
  if (!y || inference.shape(dy) == *y) return y.has_value();
  inference.bad_operand(
      dy, Diagnosis::kShapeMismatch,
      fmt::format("{} is not the result's shape {}", inference.shape(dy).str(), y->str()));
  return false;
}

void infer_convolution_grad_data(Inference& inference) {
  const auto x = four_extents(inference, "input_shape");
  if (!x || !has_rank(inference, 0, 4, "[N, O, H, W]") ||
      !has_rank(inference, 1, 4, "[O, C/groups, kh, kw]") || !inference.same_dtype() ||
      !is_result(inference, 0, *x, inference.shape(1)))
    return;
  inference.result(inference.operand(0).dtype, *x, rows_of_images(inference.operand(0).rows));
}

void infer_convolution_grad_weight(Inference& inference) {
  const auto weight = four_extents(inference, "weight_shape");
  if (!weight || !has_rank(inference, 0, 4, "[N, C, H, W]") ||
      !has_rank(inference, 1, 4, "[N, O, H, W]") || !inference.same_dtype() ||
      !is_result(inference, 1, inference.shape(0), *weight))
    return;
  const bool rows = inference.operand(0).rows != kNoRows || inference.operand(1).rows != kNoRows;
  inference.result(inference.operand(0).dtype, *weight, rows ? kMixedRows : kNoRows);
}

/// Input first, so that the weight is read no more when its own gradient is made.
std::vector<ir::ValueId> convolution_gradient(GradientContext& context) {
  const ir::Attributes& forward = context.node.attributes;
  const auto gradient = [&](std::string_view op, size_t i, std::vector<ir::ValueId> operands,
                            std::string_view shape_name) {
    const Shape shape = context.value_of(context.operand(i)).shape;
    return context.add(op, i, std::move(operands),
                       {{"strides", *forward.find("strides")},
                        {"padding", *forward.find("padding")},
                        {"dilation", *forward.find("dilation")},
                        {"groups", *forward.find("groups")},
                        {std::string(shape_name), shape.extents()}});
  };
  const ir::ValueId x = context.operand(0), weight = context.operand(1), dy = context.gradient();
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0])
    gradients[0] = gradient("convolution_grad_data", 0, {dy, weight}, "input_shape");
  if (context.wanted[1])
    gradients[1] = gradient("convolution_grad_weight", 1, {x, dy}, "weight_shape");
  return gradients;
}

AttributeDef sizes(std::string_view name, std::string_view fallback, std::string_view doc) {
  return {.name = name,
          .type = AttributeType::kIntegers,
          .fallback = fallback,
          .doc = doc,
          .min = 1,
          .max = kMaxWindow};
}

AttributeDef count(std::string_view name, std::string_view fallback, std::string_view doc) {
  AttributeDef def = sizes(name, fallback, doc);
  def.type = AttributeType::kInteger;
  return def;
}

constexpr std::string_view kPaddingDoc =
    "valid, same (the odd pixel at the bottom and right), same_lower, or pads: 1, [1, 1], "
    "[[top, bottom], [left, right]]";

/// Of the primitive and its gradients, all normalised.
std::vector<AttributeDef> primitive_attributes() {
  return {sizes("strides", "1", "steps between windows"),
          {"padding", AttributeType::kPadding, "valid", "[top, bottom, left, right]"},
          sizes("dilation", "1", "steps between the elements of a window"),
          count("groups", "1", "blocks of channels that do not see each other")};
}

std::vector<AttributeDef> gradient_attributes(std::string_view shape, std::string_view doc) {
  std::vector<AttributeDef> attributes = primitive_attributes();
  attributes.push_back(sizes(shape, "", doc));
  return attributes;
}

}  // namespace

std::span<const OpDef> conv2d() {
  static const OpDef kOps[] = {
      {
          .name = "conv2d",
          .doc = "Convolution layer over images: a weight [filters, C/groups, kh, kw], a bias, an "
                 "activation.",
          .formula = "y = activation(x * W + b)",
          .operands = {{"in", "[N, C, H, W]"}},
          .attributes = with_kernel_attributes(
              {count("filters", "", "channels of the result"),
               sizes("kernel_size", "", "height and width of the window, or one number"),
               sizes("strides", "1", "steps between windows"),
               {"padding", AttributeType::kPadding, "valid", kPaddingDoc},
               sizes("dilation_rate", "1", "steps between the elements of a window"),
               count("groups", "1", "blocks of channels that do not see each other")}),
          .expand = expand_conv2d,
      },
      {
          .name = "convolution",
          .doc = "Cross-correlation of images with a weight.",
          .formula = "y[n, o, i, j] = sum x[n, c, i s + u d - pad, j s + v d - pad] w[o, c, u, v]",
          .operands = {{"x", "[N, C, H, W]"}, {"weight", "[O, C/groups, kh, kw]"}},
          .attributes = primitive_attributes(),
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
          .doc = "The gradient of a convolution with respect to its input.",
          .formula = "dx = the convolution's transpose applied to dy",
          .operands = {{"dy", "[N, O, H', W']"}, {"weight", "[O, C/groups, kh, kw]"}},
          .attributes = gradient_attributes("input_shape", "the shape of x"),
          .infer = infer_convolution_grad_data,
          .internal = true,
          .examples = {"convolution_grad_data(f32[2,4,6,5], f32[4,3,3,3]) input_shape=[2,3,8,7]"},
      },
      {
          .name = "convolution_grad_weight",
          .doc = "The gradient of a convolution with respect to its weight.",
          .formula =
              "dw[o, c, u, v] = sum x[n, c, i s + u d - pad, j s + v d - pad] dy[n, o, i, j]",
          .operands = {{"x", "[N, C, H, W]"}, {"dy", "[N, O, H', W']"}},
          .attributes = gradient_attributes("weight_shape", "the shape of the weight"),
          .infer = infer_convolution_grad_weight,
          .internal = true,
          .examples = {"convolution_grad_weight(f32[2,3,8,7], f32[2,4,6,5]) "
                       "weight_shape=[4,3,3,3]"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
