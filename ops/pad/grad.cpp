// The gradient of pad.
#include "compiler/grad/shared_parts.h"
#include "runtime/base/text.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

std::vector<ir::ValueId> pad_gradient(GradientContext& context) {
  const ir::Attributes& attributes = context.node.attributes;
  const Integers paddings = attributes.get<Integers>("paddings");
  if (attributes.get<std::string>("mode") != "constant")
    return {context.add("pad_grad", 0, {context.gradient()},
                        {{"paddings", paddings}, {"mode", *attributes.find("mode")}})};
  const Shape x = context.value_of(context.operand(0)).shape;
  std::vector<std::string> items;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t before = paddings[2 * static_cast<size_t>(axis)];
    items.push_back(fmt::format("{}:{}", before, before + x[axis]));
  }
  return {
      context.add("slice", 0, {context.gradient()}, {{"index", "[" + join(items, ", ") + "]"}})};
}

}  // namespace

std::vector<Rules> pad() { return {{"pad", pad_gradient}}; }

}  // namespace flow::grad
