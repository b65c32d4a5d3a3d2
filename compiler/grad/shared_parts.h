// Declares the shared parts of gradients (operands that were broadcast, and zeros) and of layer
// expansions (channels, activations, windows over lengths, numbers that become elements, and gamma
// and beta).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "compiler/ir/builder.h"
#include "compiler/ir/rules.h"
#include "ops/core/axes.h"

namespace flow {

/// Returns the gradient of operand i, given the gradient of the result to which operand i was
/// broadcast: the sum over the copies. Returns `gradient` itself if there are no copies.
ir::ValueId sum_to_operand(GradientContext& context, size_t i, ir::ValueId gradient);

/// Returns the gradient of operand i as the result of `op` over all elements of the result, summed
/// over the copies of operand i.
ir::ValueId summed(GradientContext& context, size_t i, std::string_view op,
                   std::vector<ir::ValueId> operands);

/// Returns the gradient of operand i of a selection: `gradient` where `condition` equals `when`,
/// and zero elsewhere.
ir::ValueId chosen_gradient(GradientContext& context, size_t i, ir::ValueId condition, bool when);

/// Adds zeros with the type of `of`, as an intermediate value of the gradient of operand i.
inline ir::ValueId zeros_like(GradientContext& context, size_t i, const ir::Value& of,
                              std::string_view part = {}) {
  return context.fill(i, 0, of.shape, of.dtype, part);
}

/// Applies the activation and `restore`, which gives the result its final shape. An elementwise
/// activation is applied first, because it can then be fused.
template <typename Restore>
ir::ValueId activate_and_restore(const LayerContext& context, ir::ValueId y, Restore restore) {
  const ops::OpSpec* op = ops::find_spec(context.attributes.get<std::string>("activation"));
  return op && op->elementwise ? restore(context.activate(y)) : context.activate(restore(y));
}

/// Returns true if operand 0 is (N, C, ...) with at least `rank` axes. Otherwise reports an error.
inline bool has_channels(const LayerContext& context, int rank) {
  const Shape& x = context.operand(0).shape;
  if (x.rank() >= rank) return true;
  context.site().bad_operand(
      0, Diagnosis::kRankMismatch,
      fmt::format("{} has fewer than {} dimensions; expected (N, C, ...)", x.str(), rank));
  return false;
}

/// Returns the operand of a layer over lengths, (N, C, L), as images (N, C, 1, L).
ir::ValueId with_height(const LayerContext& context, std::string_view part, ir::ValueId x);
/// Removes the height that with_height has added. `y` may be a value computed from such images.
ir::ValueId without_height(const LayerContext& context, std::string_view part, ir::ValueId y);

/// The factor `gamma` and the term `beta` of a layer. Each is a variable, or a constant if the
/// layer does not use it.
struct Affine {
  ir::ValueId gamma, beta;
};

/// Adds gamma with this dtype and shape.
ir::ValueId add_gamma(const LayerContext& context, DType dtype, const Shape& shape, bool scale);
/// Adds both with this dtype and shape.
Affine add_affine(const LayerContext& context, DType dtype, const Shape& shape, bool scale,
                  bool center);

/// Reports a layer of a train job that computes each mean of only one value, given as `values`. Its
/// result would be beta for every operand. `of` names what a mean is computed over, such as
/// "channel".
bool has_values(const LayerContext& context, int64_t values, std::string_view of,
                std::string_view hint);

}  // namespace flow

namespace flow::grad {

/// Returns true if `value` is a finite number that the layer's dtype can represent. Otherwise
/// reports the attribute. Integers beyond 2^53 are rejected: numbers of the file are doubles, so
/// the file may have contained a neighboring integer.
bool is_held(const LayerContext& context, std::string_view attribute, double value);

/// Does the same check, but accepts infinite and NaN floats.
bool is_held_or_infinite(const LayerContext& context, std::string_view attribute, double value);

}  // namespace flow::grad
