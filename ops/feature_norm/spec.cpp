// The records of layer normalization and root mean square normalization, which normalize each row
// of features by its own statistics.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// The shape function of ops that normalize rows. kVectors is both the number of vectors (gamma,
/// beta) and the number of statistics of each row.
template <int kVectors>
void infer_normalize(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& x = call.operand(0);
  if (!call.have_shape(1, 1 + kVectors, x.shape.from(*axis))) return;
  const int batch_axis = batch_before(x.batch_axis, *axis);
  call.result(x.dtype, x.shape, batch_axis);
  for (int i = 0; i < kVectors; ++i) call.result(x.dtype, x.shape.first(*axis), batch_axis);
}

template <int kVectors>
void infer_normalize_grad(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& dy = call.operand(0);
  const Shape features = dy.shape.from(*axis);
  if (!call.have_shape(1, 2, dy.shape) || !call.have_shape(2, 3, features) ||
      !call.have_shape(3, 3 + kVectors, dy.shape.first(*axis)))
    return;
  const int batch_axis = common_batch(dy.batch_axis, call.operand(1).batch_axis);
  call.result(dy.dtype, dy.shape, batch_before(batch_axis, *axis));
  for (int i = 0; i < kVectors; ++i)
    call.result(dy.dtype, features, batch_from(batch_axis, *axis),
                combined(batch_axis, Combine::kSum));
}

/// The epsilon of rms_norm. Its default is that of Llama (Touvron et al., 2023).
AttributeSpec mean_square_epsilon() {
  return number_attribute("epsilon", "1e-6",
                          "added to the mean square under the square root, for numerical stability",
                          0);
}

}  // namespace

std::vector<OpSpec> feature_norm() {
  return {
      {.name = "layer_norm",
       .doc = "Layer normalization (Ba et al., 2016): normalizes each row over the axes from "
              "`axis` to the last.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"in", "any shape that has the axis"}},
       .attributes = {first_axis_attribute(), epsilon_attribute("1e-5"), center_attribute(),
                      scale_attribute()},
       .takes_variables = true},
      {.name = "layer_normalize",
       .doc = "Normalizes each row over the axes from `axis` to the last, by its own mean and "
              "biased variance.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"x", "any shape that has the axis"},
                    {"gamma", "shape of x from the axis to the last"},
                    {"beta", "shape of x from the axis to the last"}},
       .attributes = {first_axis_attribute(), epsilon_attribute("1e-5")},
       .results = {{"out"},
                   {.name = "mean", .optional = true},
                   {.name = "variance", .optional = true}},
       .normalize = normalize_axis,
       .infer = infer_normalize<2>,
       .layer = "layer_norm",
       .flops = {8, Flops::Each::kFirst},
       .internal = true,
       .examples = {"layer_normalize(f32[3,4], f32[4], f32[4])",
                    "layer_normalize(f32[2,3,5], f32[3,5], f32[3,5]) axis=1 epsilon=0.1",
                    "layer_normalize(f32[40,7], f32[7], f32[7])",
                    "layer_normalize(f32[2,3,2,2], f32[2,3,2,2], f32[2,3,2,2]) axis=0"}},
      {.name = "layer_normalize_grad",
       .doc = "Gradients of layer_normalize.",
       .formula = "dx = r (dy gamma - mean(dy gamma) - n mean(dy gamma n)), "
                  "n = (x - mean) r, r = 1 / sqrt(variance + epsilon); "
                  "dgamma = sum dy n, dbeta = sum dy",
       .operands = {{"dy", "any shape that has the axis"},
                    {"x", "same shape as dy"},
                    {"gamma", "shape of dy from the axis to the last"},
                    {"mean", "shape of dy before the axis"},
                    {"variance", "shape of dy before the axis"}},
       .attributes = {first_axis_attribute(), epsilon_attribute("1e-5")},
       .results = {{"out"},
                   {.name = "dgamma", .optional = true},
                   {.name = "dbeta", .optional = true}},
       .normalize = normalize_axis,
       .infer = infer_normalize_grad<2>,
       .linear = {0},
       .flops = {13, Flops::Each::kFirst},
       .internal = true},
      {.name = "rms_norm",
       .doc = "Root mean square normalization (Zhang and Sennrich, 2019): divides each row over "
              "the axes from `axis` to the last by its root mean square.",
       .formula = "y = x / sqrt(mean(x^2) + epsilon) * gamma",
       .operands = {{"in", "any shape that has the axis"}},
       .attributes = {first_axis_attribute(), mean_square_epsilon(), scale_attribute()},
       .takes_variables = true},
      {.name = "rms_normalize",
       .doc = "Divides each row over the axes from `axis` to the last by its root mean square.",
       .formula = "y = x inverse_rms gamma, inverse_rms = 1 / sqrt(mean(x^2) + epsilon)",
       .operands = {{"x", "any shape that has the axis"},
                    {"gamma", "shape of x from the axis to the last"}},
       .attributes = {first_axis_attribute(), mean_square_epsilon()},
       .results = {{"out"}, {.name = "inverse_rms", .optional = true}},
       .normalize = normalize_axis,
       .infer = infer_normalize<1>,
       .layer = "rms_norm",
       .flops = {4, Flops::Each::kFirst},
       .internal = true,
       .examples = {"rms_normalize(f32[3,4], f32[4])",
                    "rms_normalize(f32[3,4,5], f32[4,5]) axis=1 epsilon=0.001",
                    "rms_normalize(f32[40,7], f32[7])",
                    "rms_normalize(f32[2,3,2,2], f32[2,3,2,2]) axis=0"}},
      {.name = "rms_normalize_grad",
       .doc = "Gradients of rms_normalize.",
       .formula = "dx = r (dy gamma - n mean(dy gamma n)), n = x r, r = inverse_rms; "
                  "dgamma = sum dy n",
       .operands = {{"dy", "any shape that has the axis"},
                    {"x", "same shape as dy"},
                    {"gamma", "shape of dy from the axis to the last"},
                    {"inverse_rms", "shape of dy before the axis"}},
       .attributes = {first_axis_attribute()},
       .results = {{"out"}, {.name = "dgamma", .optional = true}},
       .normalize = normalize_axis,
       .infer = infer_normalize_grad<1>,
       .linear = {0},
       .flops = {9, Flops::Each::kFirst},
       .internal = true,
       .examples = {"rms_normalize_grad(f32[3,4], f32[3,4], f32[4], f32[3])",
                    "rms_normalize_grad(f32[3,4,5], f32[3,4,5], f32[4,5], f32[3]) axis=1"}},
  };
}

}  // namespace flow::ops
