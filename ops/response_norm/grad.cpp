// Expansion of layers that divide by a norm into primitives.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;

ValueId scalar(const LayerContext& context, std::string_view part, double value) {
  return context.number(part, value, context.operand(0).dtype);
}

ValueId expand_l2_normalize(LayerContext& context) {
  const ValueId x = context.operands[0];
  const ValueId square = context.add("square", "square", {x});
  const ValueId sum = context.add("reduce_sum", "sum", {square},
                                  {{"axis", *context.attributes.find("axis")}, {"keepdims", true}});
  const ValueId least = scalar(context, "epsilon", context.attributes.get<double>("epsilon"));
  const ValueId bounded = context.add("maximum", "maximum", {sum, least});
  const ValueId scale = context.add("rsqrt", "rsqrt", {bounded});
  return context.add("multiply", "", {x, scale});
}

/// Returns the mean of `size` neighboring channels. Channels that do not exist count as zeros.
ValueId mean_of_channels(const LayerContext& context, ValueId x, const Shape& shape, int64_t size) {
  const ValueId images = context.reshape(
      "images", x, Integers{shape[0], 1, shape[1], shape.elements(2, shape.rank())});
  const ValueId padded = context.add(
      "pad", "pad", {images}, {{"paddings", Integers{0, 0, 0, 0, size / 2, (size - 1) / 2, 0, 0}}});
  const ValueId mean = context.add("avg_pool2d", "mean", {padded},
                                   {{"ksize", Integers{size, 1}},
                                    {"strides", Integers{1, 1}},
                                    {"padding", Integers{0, 0, 0, 0}}});
  return context.reshape("channels", mean, shape.extents());
}

ValueId expand_local_response_norm(LayerContext& context) {
  const Shape shape = context.operand(0).shape;
  if (!has_channels(context, 2)) return {};
  const auto number = [&](const char* name) { return context.attributes.get<double>(name); };
  const ValueId x = context.operands[0];
  const ValueId square = context.add("square", "square", {x});
  const ValueId mean =
      mean_of_channels(context, square, shape, context.attributes.get<int64_t>("size"));
  const ValueId scaled = context.add("scale", "scale", {mean}, {{"factor", number("alpha")}});
  const ValueId sum = context.add("add", "sum", {scaled, scalar(context, "k", number("k"))});
  const ValueId divisor = context.add("pow", "pow", {sum, scalar(context, "beta", number("beta"))});
  return context.add("divide", "", {x, divisor});
}

}  // namespace

std::vector<Rules> response_norm() {
  return {{"l2_normalize", nullptr, expand_l2_normalize},
          {"local_response_norm", nullptr, expand_local_response_norm}};
}

}  // namespace flow::grad
