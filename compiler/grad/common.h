// What gradients of several families use: operands that were broadcast, and zeros. What expansions
// of several layers use: channels, activations, windows over lengths, numbers that become elements,
// and gamma and beta.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "ops/core/axes.h"

namespace flow {

/// The gradient of operand i from that of a result to which it was broadcast: the sum over the
/// copies. Where there were none, `gradient` itself.
ir::ValueId sum_to_operand(GradientContext& context, size_t i, ir::ValueId gradient);

/// The gradient of operand i from `op` over all elements of the result.
ir::ValueId summed(GradientContext& context, size_t i, std::string_view op,
                   std::vector<ir::ValueId> operands);

/// The gradient of operand i that the result was taken from where `condition` is `when`: elsewhere
/// it gets zeros.
ir::ValueId chosen_gradient(GradientContext& context, size_t i, ir::ValueId condition, bool when);

/// Zeros like `of` on the way to the gradient of operand i.
inline ir::ValueId zeros_like(GradientContext& context, size_t i, const ir::Value& of,
                              std::string_view part = {}) {
  return context.fill(i, 0, of.shape, of.dtype, part);
}

/// The activation and `restore`, which gives the result its shape: an elementwise activation comes
/// first, where it can be fused.
template <typename Restore>
ir::ValueId activate_and_restore(const LayerContext& context, ir::ValueId y, Restore restore) {
  const ops::OpSpec* op = ops::find_spec(context.attributes.get<std::string>("activation"));
  return op && op->elementwise ? restore(context.activate(y)) : context.activate(restore(y));
}

/// Is operand 0 (N, C, ...), of at least `rank` axes? Reports it if not.
inline bool has_channels(const LayerContext& context, int rank) {
  const Shape& x = context.operand(0).shape;
  if (x.rank() >= rank) return true;
  context.site().bad_operand(
      0, Diagnosis::kRankMismatch,
      fmt::format("{} has fewer than {} dimensions; expected (N, C, ...)", x.str(), rank));
  return false;
}

/// The operand of a layer over lengths: [N, C, L] as the images [N, C, 1, L].
ir::ValueId with_height(const LayerContext& context, std::string_view part, ir::ValueId x);
/// What with_height has made, or what was made of it, without the height.
ir::ValueId without_height(const LayerContext& context, std::string_view part, ir::ValueId y);

/// The factor `gamma` and the term `beta` of a layer: variables, or constants where the layer goes
/// without.
struct Affine {
  ir::ValueId gamma, beta;
};

/// Adds gamma, of that dtype and shape.
ir::ValueId add_gamma(const LayerContext& context, DType dtype, const Shape& shape, bool scale);
/// Adds both, of that dtype and shape.
Affine add_affine(const LayerContext& context, DType dtype, const Shape& shape, bool scale,
                  bool center);

/// Reports a layer of a train job that takes each mean of `values` = 1 value: its result is beta,
/// whatever its operand is. `of`: what a mean is of, "channel".
bool has_values(const LayerContext& context, int64_t values, std::string_view of,
                std::string_view hint);

}  // namespace flow

namespace flow::grad {

/// Is `value` a finite number of the dtype that the layer names? Reports the attribute if not. An
/// integer beyond 2^53 may be the neighbor of the one that was meant: numbers of the file are
/// doubles.
bool is_held(const LayerContext& context, std::string_view attribute, double value);

/// The same, and floats may be infinite or NaN.
bool is_held_or_infinite(const LayerContext& context, std::string_view attribute, double value);

}  // namespace flow::grad
