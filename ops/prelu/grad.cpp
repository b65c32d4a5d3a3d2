// The expansion of prelu, a rectifier with a trained slope.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// relu(x) + alpha min(x, 0), where alpha has one value for each index of axis 1
ValueId expand_prelu(LayerContext& context) {
  const ir::Value x = context.operand(0);
  if (!has_channels(context, 2)) return {};
  const int64_t slopes = context.attributes.get<bool>("shared") ? 1 : x.shape[1];
  const ValueId alpha =
      context.add_variable("alpha", "alpha_initializer", x.dtype, {slopes}, fans_of({slopes}));
  if (!alpha.valid()) return {};
  std::vector<int64_t> along(static_cast<size_t>(x.shape.rank() - 1), 1);
  along[0] = slopes;
  const ValueId slope = context.reshape("slope", alpha, std::move(along));
  const ValueId zero = context.number("zero", 0, x.dtype);
  const ValueId below = context.add("minimum", "below", {context.operands[0], zero});
  const ValueId scaled = context.add("multiply", "scaled", {below, slope});
  const ValueId above = context.add("relu", "above", {context.operands[0]});
  return context.add("add", "", {above, scaled});
}

}  // namespace

std::vector<Rules> prelu() { return {{"prelu", nullptr, expand_prelu}}; }

}  // namespace flow::grad
