// Joining and splitting of arrays, expressed with the ops of parts, and the gradients of these ops.
#include <algorithm>
#include <numeric>

#include "compiler/grad/shared_parts.h"
#include "ops/core/index_text.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

std::vector<ir::ValueId> concat_gradient(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  std::vector<ir::ValueId> gradients(context.node.operands.size());
  int64_t begin = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Shape x = context.value_of(context.operand(i)).shape;
    const int rank = x.rank();
    const int64_t end = begin + x[axis];
    if (context.wanted[i])
      gradients[i] = context.add("slice", i, {context.gradient()},
                                 {{"index", ops::index_of_range(rank, axis, begin, end)}});
    begin = end;
  }
  return gradients;
}

std::vector<ir::ValueId> stack_gradient(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  const int rank = context.value_of(context.result(0)).shape.rank();
  return context.each_wanted([&](size_t i) {
    return context.add("slice", i, {context.gradient()},
                       {{"index", ops::index_of_place(rank, axis, static_cast<int64_t>(i))}});
  });
}

/// Surrounds the gradient of one part with zeros, because no other part has a gradient.
ir::ValueId padded(GradientContext& context, size_t part, int axis, const Integers& sizes) {
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(part);
  const auto rank = static_cast<size_t>(context.value_of(context.operand(0)).shape.rank());
  Integers paddings(2 * rank, 0);
  paddings[2 * static_cast<size_t>(axis)] = std::accumulate(sizes.begin(), at, int64_t{0});
  paddings[2 * static_cast<size_t>(axis) + 1] = std::accumulate(at + 1, sizes.end(), int64_t{0});
  return context.add("pad", 0, {context.gradient(part)}, {{"paddings", paddings}});
}

std::vector<ir::ValueId> split_gradient(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  const Integers sizes = context.node.attributes.get<Integers>("sizes");
  std::vector<ir::ValueId> parts = context.result_gradients;
  const auto valid = [](ir::ValueId id) { return id.valid(); };
  if (std::ranges::count_if(parts, valid) == 1)
    return {padded(context, static_cast<size_t>(std::ranges::find_if(parts, valid) - parts.begin()),
                   axis, sizes)};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].valid()) continue;
    const Shape shape = context.value_of(context.result(i)).shape;
    parts[i] =
        context.fill(0, 0, shape, context.builder.graph().compute_dtype, fmt::format("zeros{}", i));
  }
  return {context.add("concat", 0, parts, {{"axis", int64_t{axis}}})};
}

std::vector<ir::ValueId> slice_gradient(GradientContext& context) {
  ir::Attributes taken = context.attributes({"starts", "steps", "counts"});
  taken.set("input_shape", context.value_of(context.operand(0)).shape.extents());
  return {context.add("slice_grad", 0, {context.gradient()}, std::move(taken))};
}

}  // namespace

std::vector<Rules> parts() {
  return {{"concat", concat_gradient},
          {"stack", stack_gradient},
          {"split", split_gradient},
          {"slice", slice_gradient}};
}

}  // namespace flow::grad
