// Specifications of the ops that process gradients before updates: regularization, clipping and
// loss scaling.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

void infer_regularize(Call& call) {
  if (fit_gradient(call, 2)) infer_like_operand(call);
}

void infer_clip_factor(Call& call) {
  for (int i = 0; i < 2; ++i) call.result(call.compute_dtype(), {}, kBatchReduced);
}

void infer_unscale_factor(Call& call) {
  if (call.have_shape(0, 1, {})) infer_clip_factor(call);
}

void infer_move_loss_scale(Call& call) {
  if (!call.have_shape(0, 3, {})) return;
  for (int i = 0; i < 2; ++i) call.result(call.compute_dtype(), {}, kNoBatch);
}

OpSpec regularize() {
  return {.name = "regularize",
          .doc = "Adds the gradient of a regularizer.",
          .formula = "g + l1 sign(w) + l2 w",
          .operands = {{"gradient", "gradient of the summed loss"},
                       {"variable", "same shape as the gradient"}},
          .attributes = {required_number("l1", "L1 or L2 coefficient, unscaled like the gradient"),
                         required_number("l2", "L1 or L2 coefficient, unscaled like the gradient")},
          .results = {{"regularized"}},
          .infer = infer_regularize,
          .in_place = {0},
          .elementwise = true,
          .for_updates = true,
          .flops = {2},
          .internal = true};
}

std::vector<AttributeSpec> norm_clipping() {
  return {required_magnitude("clip_norm", "largest global norm; 0 disables clipping"),
          gradient_scale()};
}

/// Returns the optional attribute `epsilon`, which is added to the norm.
PlanAttribute norm_epsilon() {
  return {.name = "epsilon", .kind = Kind::kMagnitude, .optional = true};
}

std::vector<ResultSpec> factor_and_norm() {
  return {{"factor"}, {.name = "norm", .optional = true}};
}

OpSpec clip_factor() {
  return {
      .name = "clip_factor",
      .doc = "Factor that limits the global norm of all gradients.",
      .formula = "min(1, clip_norm / (|scale g| + epsilon)), the norm over all g; clip_norm 0: 1",
      .operands = {{.name = "gradients", .doc = "gradient of the summed loss", .variadic = true}},
      .attributes = norm_clipping(),
      .plan_attributes = {norm_epsilon()},
      .results = factor_and_norm(),
      .infer = infer_clip_factor,
      .for_updates = true,
      .flops = {2, Flops::Each::kOperands},
      .internal = true};
}

OpSpec unscale_factor() {
  return {
      .name = "unscale_factor",
      .doc = "Factor that undoes the loss scale and clips; NaN if a gradient is not finite.",
      .formula =
          "min(1, clip_norm / (|scale g / loss_scale| + epsilon)) / loss_scale; clip_norm 0: no "
          "clip",
      .operands = {{"loss_scale", "a scalar"},
                   {.name = "gradients", .doc = "gradients of the scaled loss", .variadic = true}},
      .attributes = norm_clipping(),
      .plan_attributes = {norm_epsilon()},
      .results = factor_and_norm(),
      .infer = infer_unscale_factor,
      .for_updates = true,
      .flops = {2, Flops::Each::kOperands},
      .internal = true};
}

OpSpec move_loss_scale() {
  return {.name = "move_loss_scale",
          .doc = "Loss scale of the next step.",
          .formula =
              "scale backoff_factor if the factor is NaN; scale growth_factor after "
              "growth_interval steps without NaN; within the normal float32 range",
          .operands = {{"factor", "NaN if a gradient was not finite"},
                       {"loss_scale", "a scalar"},
                       {"finite_steps", "finite steps since the last change"}},
          .attributes = {required_number("backoff_factor", "factor to shrink by"),
                         required_number("growth_factor", "factor to grow by"),
                         required_number("growth_interval", "finite steps before the scale grows")},
          .results = updated_with({"finite_steps"}),
          .infer = infer_move_loss_scale,
          .for_updates = true,
          .internal = true};
}

}  // namespace

std::vector<OpSpec> gradients() {
  return {regularize(), clip_factor(), unscale_factor(), move_loss_scale()};
}

}  // namespace flow::ops
