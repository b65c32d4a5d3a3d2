// The records of batch normalization: the layer, a primitive for train jobs with its gradients, and
// a primitive for predict jobs.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// The batch axis of a tensor that is normalized over all axes except `axis`. Normalization
/// combines the rows of the whole batch, or with shards only the rows of each shard.
int normalized_batch(const Call& call, int batch_axis, int axis) {
  return call.job().shards > 1 ? batch_axis : batch_along(batch_axis, axis);
}

void infer_batch_norm(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& x = call.operand(0);
  const Shape channels{x.shape[*axis]};
  if (!call.have_shape(1, 3, channels)) return;
  call.result(x.dtype, x.shape, normalized_batch(call, x.batch_axis, *axis));
  for (int i = 0; i < 2; ++i)
    call.result(x.dtype, channels, batch_of_vector(x.batch_axis, *axis),
                combined(x.batch_axis, Combine::kMean));
}

void infer_batch_norm_predict(Call& call) {
  const auto axis = axis_of(call);
  if (axis && call.have_shape(1, 5, {call.shape(0)[*axis]})) infer_like_operand(call);
}

/// Returns the axis if dy and x have the same shape and the other operands are vectors along the
/// channels; otherwise reports it.
std::optional<int> axis_of_batch_norm_grad(Call& call, size_t operands) {
  const auto axis = axis_of(call);
  if (!axis || !call.have_shape(1, 2, call.shape(0)) ||
      !call.have_shape(2, operands, {call.shape(0)[*axis]}))
    return {};
  return axis;
}

void infer_batch_norm_grad_affine(Call& call) {
  const auto axis = axis_of_batch_norm_grad(call, 6);
  if (!axis) return;
  const Operand& dy = call.operand(0);
  const int batch_axis = common_batch(dy.batch_axis, call.operand(1).batch_axis);
  for (int i = 0; i < 2; ++i)
    call.result(dy.dtype, {dy.shape[*axis]}, batch_of_vector(batch_axis, *axis),
                combined(batch_axis, Combine::kSum));
}

void infer_batch_norm_grad(Call& call) {
  const auto axis = axis_of_batch_norm_grad(call, 8);
  if (!axis) return;
  const Operand& dy = call.operand(0);
  const int batch_axis = common_batch(dy.batch_axis, call.operand(1).batch_axis);
  call.result(dy.dtype, dy.shape, normalized_batch(call, batch_axis, *axis));
}

void infer_move_statistics(Call& call) {
  const Shape& shape = call.shape(0);
  if (!call.have_shape(1, 4, shape)) return;
  for (size_t i = 2; i < 4; ++i) call.result(call.dtype(i), shape, kNoBatch);
}

std::vector<AttributeSpec> batch_norm_attributes() {
  return {axis_attribute("1", "channel axis"), epsilon_attribute("0.001")};
}

std::vector<AttributeSpec> batch_norm_grad_attributes() {
  std::vector<AttributeSpec> attributes = batch_norm_attributes();
  attributes.push_back(
      {"rectified", AttributeType::kBool, "false",
       "dy is the gradient of relu(result): it counts as 0 where the result is at most 0"});
  return attributes;
}

/// An attribute of calls in which each rank has a shard and the ranks exchange their sums.
PlanAttribute synchronized_in_plans() {
  return {.name = "synchronized", .kind = Kind::kFlag, .optional = true};
}

AttributeSpec momentum_attribute(std::string_view fallback, std::string_view doc) {
  return number_attribute("momentum", fallback, doc, 0, 1);
}

std::vector<OperandSpec> with_statistics(std::vector<OperandSpec> operands) {
  operands.push_back({.name = "mean", .doc = "(C)", .statistic = true});
  operands.push_back({.name = "variance", .doc = "(C), biased", .statistic = true});
  return operands;
}

std::vector<OperandSpec> batch_norm_grad_operands() {
  std::vector<OperandSpec> operands = with_statistics({{"dy", "any shape that has the axis"},
                                                       {"x", "same shape as dy"},
                                                       {"gamma", "(C)"},
                                                       {"beta", "(C)"}});
  for (size_t i = 4; i < 6; ++i) operands[i].per_shard = true;
  return operands;
}

std::vector<OperandSpec> with_sums(std::vector<OperandSpec> operands) {
  operands.push_back({.name = "dgamma", .doc = "(C)", .per_shard = true});
  operands.push_back({.name = "dbeta", .doc = "(C)", .per_shard = true});
  return operands;
}

}  // namespace

std::vector<OpSpec> batch_norm() {
  return {
      {.name = "batch_normalization",
       .doc = "Batch normalization (Ioffe and Szegedy, 2015): batch statistics in training, "
              "moving averages in inference mode.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"in", "any shape that has the axis"}},
       .attributes = {axis_attribute("1", "channel axis"),
                      momentum_attribute(
                          "0.99", "decay of the moving averages: fraction to keep in a train step"),
                      epsilon_attribute("0.001"),
                      center_attribute(),
                      scale_attribute(),
                      {"synchronized", AttributeType::kBool, "false",
                       "with shards, use the batch statistics of the whole batch; requires "
                       "`--distributed`, and a rank for each shard"}},
       .takes_variables = true,
       .trains_otherwise = true},
      {.name = "batch_norm",
       .doc = "Normalizes each channel by its batch mean and biased variance.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"x", "any shape that has the axis"}, {"gamma", "(C)"}, {"beta", "(C)"}},
       .attributes = batch_norm_attributes(),
       .plan_attributes = {synchronized_in_plans()},
       .results = {{"out"},
                   {.name = "mean", .optional = true},
                   {.name = "variance", .optional = true}},
       .normalize = normalize_axis,
       .infer = infer_batch_norm,
       .takes = {Epilogue::kRelu},
       .layer = "batch_normalization",
       .flops = {8, Flops::Each::kFirst},
       .internal = true,
       .examples = {"batch_norm(f32[4,3,2,2], f32[3], f32[3])",
                    "batch_norm(f32[7,5], f32[5], f32[5]) epsilon=0.1",
                    "batch_norm(f32[2,3,5], f32[5], f32[5]) axis=-1",
                    "batch_norm(f32[2,70,3], f32[2], f32[2]) axis=0"}},
      {.name = "batch_norm_predict",
       .doc = "Normalizes each channel by given statistics.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = with_statistics(
           {{"x", "any shape that has the axis"}, {"gamma", "(C)"}, {"beta", "(C)"}}),
       .attributes = batch_norm_attributes(),
       .normalize = normalize_axis,
       .infer = infer_batch_norm_predict,
       .in_place = {0},
       .elementwise = true,
       .takes = {Epilogue::kRelu},
       .layer = "batch_normalization",
       .flops = {4, Flops::Each::kFirst},
       .internal = true,
       .examples = {"batch_norm_predict(f32[4,3,2,2], f32[3], f32[3], f32[3], f32[3]) epsilon=2",
                    "batch_norm_predict(f32[2,70], f32[2], f32[2], f32[2], f32[2]) epsilon=3 "
                    "axis=0"}},
      {.name = "batch_norm_grad_affine",
       .doc = "Gradients of batch_norm with respect to gamma and beta.",
       .formula = "dgamma = sum dy (x - mean) / sqrt(variance + epsilon), dbeta = sum dy",
       .operands = batch_norm_grad_operands(),
       .attributes = batch_norm_grad_attributes(),
       .results = {{"out"}, {"dbeta"}},
       .normalize = normalize_axis,
       .infer = infer_batch_norm_grad_affine,
       .linear = {0},
       .flops = {5, Flops::Each::kFirst},
       .internal = true},
      {.name = "batch_norm_grad",
       .doc = "Gradient of batch_norm with respect to x.",
       .formula = "dx = gamma r (dy - dbeta / n - (x - mean) r dgamma / n), "
                  "r = 1 / sqrt(variance + epsilon)",
       .operands = with_sums(batch_norm_grad_operands()),
       .attributes = batch_norm_grad_attributes(),
       .plan_attributes = {synchronized_in_plans()},
       .normalize = normalize_axis,
       .infer = infer_batch_norm_grad,
       .in_place = {0, 1},
       .elementwise = true,
       .flops = {9, Flops::Each::kFirst},
       .internal = true},
      {.name = "move_statistics",
       .doc = "Updates the moving averages with the statistics of one batch.",
       .formula = "updated = momentum moving + (1 - momentum) batch, with the batch variance "
                  "times unbias",
       .operands = {{"mean", "(C), of the batch"},
                    {"variance", "(C), of the batch, biased"},
                    {.name = "moving_mean", .doc = "(C)", .statistic = true},
                    {.name = "moving_variance", .doc = "(C)", .statistic = true}},
       .attributes = {momentum_attribute("", "fraction of the old average to keep"),
                      {"unbias", AttributeType::kNumber, "",
                       "n / (n - 1) for a variance over n elements"}},
       .results = {{.name = "out", .moves = 2}, {.name = "updated_variance", .moves = 3}},
       .infer = infer_move_statistics,
       .flops = {6},
       .internal = true},
  };
}

}  // namespace flow::ops
