// Group normalization: the layer, its primitive and that one's gradient.
#include <fmt/format.h>

#include "compiler/ir/builder.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "compiler/ops/normalization.h"

namespace flow::defs {
namespace {

using ir::ValueId;

/// Reports an operand 0 that is not [N, C, ...] with channels for `groups`.
bool has_groups(CallSite& site, int64_t groups) {
  const Shape& x = site.shape(0);
  if (x.rank() < 2) {
    site.bad_operand(0, Diagnosis::kRankMismatch,
                     fmt::format("{} has fewer than 2 dimensions; expected (N, C, ...)", x.str()));
    return false;
  }
  if (x[1] % groups != 0) {
    site.bad_attribute("groups", Diagnosis::kBadAttribute,
                       fmt::format("{} channels do not divide into {} groups", x[1], groups));
    return false;
  }
  return true;
}

ir::Attributes groups_and_epsilon(const ir::Attributes& from) {
  return {{"groups", *from.find("groups")}, {"epsilon", *from.find("epsilon")}};
}

ValueId expand_group_norm(LayerContext& context) {
  const ir::Value x = context.operand(0);
  CallSite site = context.site();
  if (!has_groups(site, context.attributes.get<int64_t>("groups"))) return {};
  const auto [gamma, beta] = add_affine(context, x.dtype, {x.shape[1]}, true, true);
  return context.add("group_normalize", "normalize", {context.operands[0], gamma, beta},
                     groups_and_epsilon(context.attributes));
}

void infer_group_normalize(Inference& inference) {
  const auto groups = inference.attribute<int64_t>("groups");
  if (!has_groups(inference, groups)) return;
  const ir::Value& x = inference.operand(0);
  if (!have_shape(inference, 1, 3, {x.shape[1]})) return;
  const int rows = rows_before(x.rows, 1);  // the first axis is not normalised
  inference.result(x.dtype, x.shape, rows);
  for (int i = 0; i < 2; ++i) inference.result(x.dtype, {x.shape[0], groups}, rows);
}

void infer_group_normalize_grad(Inference& inference) {
  const auto groups = inference.attribute<int64_t>("groups");
  if (!has_groups(inference, groups)) return;
  const ir::Value& dy = inference.operand(0);
  const Shape channels = {dy.shape[1]};
  if (!have_shape(inference, 1, 2, dy.shape) || !have_shape(inference, 2, 3, channels) ||
      !have_shape(inference, 3, 5, {dy.shape[0], groups}))
    return;
  inference.result(dy.dtype, dy.shape, rows_before(dy.rows, 1));
  const int summed = dy.rows == ir::kNoRows ? ir::kNoRows : ir::kMixedRows;
  for (int i = 0; i < 2; ++i) inference.result(dy.dtype, channels, summed);
}

std::vector<ValueId> group_normalize_gradient(GradientContext& context) {
  const ValueId dx = context.add("group_normalize_grad", 0,
                                 {context.gradient(), context.operand(0), context.operand(1),
                                  context.result(1), context.result(2)},
                                 groups_and_epsilon(context.node.attributes));
  if (!dx.valid()) return std::vector<ValueId>(3);
  const ir::Graph& graph = context.builder.graph();
  return graph.producer_of(dx)->results;
}

AttributeDef groups_attribute() {
  return {.name = "groups",
          .type = AttributeType::kInteger,
          .fallback = "",
          .doc = "number of channel groups to normalize separately",
          .min = 1};
}

}  // namespace

std::span<const OpDef> group_norm() {
  static const OpDef kOps[] = {
      {
          .name = "group_norm",
          .doc = "Group normalization (Wu and He, 2018): normalizes each group of channels by its "
                 "own mean and variance.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = {{"in", "(N, C, ...)"}},
          .attributes = {groups_attribute(), epsilon_attribute("1e-5")},
          .expand = expand_group_norm,
          .takes_variables = true,
      },
      {
          .name = "group_normalize",
          .doc = "Normalizes each group of channels by its own mean and biased variance.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = {{"x", "(N, C, ...)"}, {"gamma", "(C)"}, {"beta", "(C)"}},
          .attributes = {groups_attribute(), epsilon_attribute("1e-5")},
          .results = {"out", "mean", "variance"},
          .infer = infer_group_normalize,
          .gradient = group_normalize_gradient,
          .internal = true,
          .examples = {"group_normalize(f32[2,6,3,2], f32[6], f32[6]) groups=3",
                       "group_normalize(f32[3,4,5], f32[4], f32[4]) groups=1 epsilon=0.1",
                       "group_normalize(f32[2,3,9], f32[3], f32[3]) groups=3",
                       "group_normalize(f32[5,8], f32[8], f32[8]) groups=2"},
      },
      {
          .name = "group_normalize_grad",
          .doc = "Gradients of group_normalize.",
          .formula = "dx = r (dy gamma - mean(dy gamma) - n mean(dy gamma n)), "
                     "n = (x - mean) r, r = 1 / sqrt(variance + epsilon); "
                     "dgamma = sum dy n, dbeta = sum dy",
          .operands = {{"dy", "(N, C, ...)"},
                       {"x", "same shape as dy"},
                       {"gamma", "(C)"},
                       {"mean", "(N, groups)"},
                       {"variance", "(N, groups)"}},
          .attributes = {groups_attribute(), epsilon_attribute("1e-5")},
          .results = {"out", "dgamma", "dbeta"},
          .infer = infer_group_normalize_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
