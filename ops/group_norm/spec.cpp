// Specifications of the group and instance normalization layers, of group_normalize and of its
// gradient.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_group_normalize(Call& call) {
  if (!has_groups(call)) return;
  const Operand& x = call.operand(0);
  if (!call.have_shape(1, 3, {x.shape[1]})) return;
  const int batch_axis = batch_before(x.batch_axis, 1);  // the first axis is not normalized
  call.result(x.dtype, x.shape, batch_axis);
  const auto groups = call.attribute<int64_t>("groups");
  for (int i = 0; i < 2; ++i) call.result(x.dtype, {x.shape[0], groups}, batch_axis);
}

void infer_group_normalize_grad(Call& call) {
  if (!has_groups(call)) return;
  const Operand& dy = call.operand(0);
  const Shape channels = {dy.shape[1]};
  if (!call.have_shape(1, 2, dy.shape) || !call.have_shape(2, 3, channels) ||
      !call.have_shape(3, 5, {dy.shape[0], call.attribute<int64_t>("groups")}))
    return;
  const int batch_axis = common_batch(dy.batch_axis, call.operand(1).batch_axis);
  call.result(dy.dtype, dy.shape, batch_before(batch_axis, 1));
  for (int i = 0; i < 2; ++i)
    call.result(dy.dtype, channels, batch_before(batch_axis, 0),
                batch_axis == 0 ? Combine::kSum : Combine::kNone);
}

AttributeSpec channel_groups_attribute() {
  return integer_attribute("groups", "", "number of channel groups to normalize separately", 1);
}

}  // namespace

std::vector<OpSpec> group_norm() {
  return {
      {.name = "group_norm",
       .doc = "Group normalization (Wu and He, 2018): normalizes each group of channels by its "
              "own mean and variance.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {channel_groups_attribute(), epsilon_attribute("1e-5")},
       .takes_variables = true},
      {.name = "instance_norm",
       .doc = "Instance normalization (Ulyanov et al., 2016): normalizes each channel of each "
              "sample by its own mean and variance.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {epsilon_attribute("1e-5")},
       .takes_variables = true},
      {.name = "group_normalize",
       .doc = "Normalizes each group of channels by its own mean and biased variance.",
       .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
       .operands = {{"x", "(N, C, ...)"}, {"gamma", "(C)"}, {"beta", "(C)"}},
       .attributes = {channel_groups_attribute(), epsilon_attribute("1e-5")},
       .results = {{"out"},
                   {.name = "mean", .optional = true},
                   {.name = "variance", .optional = true}},
       .infer = infer_group_normalize,
       .layer = "group_norm",
       .flops = {8, Flops::Each::kFirst},
       .internal = true,
       .examples = {"group_normalize(f32[2,6,3,2], f32[6], f32[6]) groups=3",
                    "group_normalize(f32[3,4,5], f32[4], f32[4]) groups=1 epsilon=0.1",
                    "group_normalize(f32[2,3,9], f32[3], f32[3]) groups=3",
                    "group_normalize(f32[5,8], f32[8], f32[8]) groups=2"}},
      {.name = "group_normalize_grad",
       .doc = "Gradients of group_normalize.",
       .formula = "dx = r (dy gamma - mean(dy gamma) - n mean(dy gamma n)), "
                  "n = (x - mean) r, r = 1 / sqrt(variance + epsilon); "
                  "dgamma = sum dy n, dbeta = sum dy",
       .operands = {{"dy", "(N, C, ...)"},
                    {"x", "same shape as dy"},
                    {"gamma", "(C)"},
                    {"mean", "(N, groups)"},
                    {"variance", "(N, groups)"}},
       .attributes = {channel_groups_attribute(), epsilon_attribute("1e-5")},
       .results = {{"out"},
                   {.name = "dgamma", .optional = true},
                   {.name = "dbeta", .optional = true}},
       .infer = infer_group_normalize_grad,
       .linear = {0},
       .flops = {13, Flops::Each::kFirst},
       .internal = true},
  };
}

}  // namespace flow::ops
