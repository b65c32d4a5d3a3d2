// Batch normalization: the layer with its moving statistics, and the gradients of its primitives.
#include <algorithm>

#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// Returns the value of a variable after the calls of the layer so far.
ValueId latest(const ir::Graph& graph, ValueId variable) {
  const ValueId updated = graph.variable_of(variable)->updated;
  return updated.valid() ? updated : variable;
}

/// Returns true if shards have different rows of each channel.
bool shards_have_rows(const ir::Graph& graph, const ir::Value& x, int axis) {
  return graph.shards > 1 && x.batch_axis >= 0 && x.batch_axis != axis;
}

/// Updates the moving statistics with those of this call, which cover `count` values per channel.
/// `normalized` is the first result of batch_norm.
void move_statistics(const LayerContext& context, ValueId normalized, int64_t count,
                     ValueId moving_mean, ValueId moving_variance) {
  ir::Graph& graph = context.builder.graph();
  // The unbiased estimate of the variance is the variance of the sample times n / (n - 1).
  const double unbias = static_cast<double>(count) / static_cast<double>(count - 1);
  const ValueId moved = context.builder.add(
      "move_statistics", graph[moving_mean].name + ":update",
      {context.result_beside(normalized, 1), context.result_beside(normalized, 2),
       latest(graph, moving_mean), latest(graph, moving_variance)},
      {{"momentum", *context.attributes.find("momentum")}, {"unbias", unbias}}, context.spans.op);
  if (!moved.valid()) return;
  graph.set_updated(moving_mean, moved);
  graph.set_updated(moving_variance, context.result_beside(moved, 1));
}

ValueId expand_batch_normalization(LayerContext& context) {
  const ir::Value x = context.operand(0);
  const auto axis = context.axis();
  if (!axis) return {};
  const Shape channels{x.shape[*axis]};
  const auto [gamma, beta] =
      add_affine(context, x.dtype, channels, context.attributes.get<bool>("scale"),
                 context.attributes.get<bool>("center"));
  const ValueId mean =
      context.add_statistic("moving_mean", plan::initializers::Zeros{}, x.dtype, channels);
  const ValueId variance =
      context.add_statistic("moving_variance", plan::initializers::Ones{}, x.dtype, channels);
  ir::Attributes attributes{{"axis", int64_t{*axis}},
                            {"epsilon", *context.attributes.find("epsilon")}};
  if (!context.train)
    return context.add("batch_norm_predict", "normalize",
                       {context.operands[0], gamma, beta, mean, variance}, attributes);
  const bool shards = shards_have_rows(context.graph(), x, *axis);
  const bool synchronized = shards && context.attributes.get<bool>("synchronized");
  if (synchronized) attributes.set("synchronized", true);
  const bool by_shard = shards && !synchronized;
  const int64_t count =
      x.shape.elements() / x.shape[*axis] / (by_shard ? context.graph().shards : 1);
  if (!has_values(context, count, by_shard ? "channel of a shard" : "channel",
                  by_shard ? "use fewer shards, a larger batch or `synchronized: true`"
                           : "use a larger batch"))
    return {};
  const ValueId y =
      context.add("batch_norm", "normalize", {context.operands[0], gamma, beta}, attributes);
  if (y.valid() && mean.valid() && variance.valid() && context.trainable)
    move_statistics(context, y, count, mean, variance);
  return y;
}

/// Adds the gradients of batch_norm. The gradient of x reads the gradients of gamma and beta.
std::vector<ValueId> batch_norm_gradient(GradientContext& context) {
  std::vector<ValueId> operands = {context.gradient(), context.operand(0), context.operand(1),
                                   context.operand(2), context.result(1),  context.result(2)};
  ir::Attributes attributes = context.attributes({"axis", "epsilon"});
  const auto add = [&](std::string_view op, size_t i) {
    return context.add(op, i, operands, attributes);
  };
  const ValueId dgamma = add("batch_norm_grad_affine", 1);
  if (!dgamma.valid()) return std::vector<ValueId>(3);
  const ir::Graph& graph = context.builder.graph();
  const ValueId dbeta = graph.producer_of(dgamma)->results[1];
  std::vector<ValueId> gradients = {{}, dgamma, dbeta};
  operands.insert(operands.end(), {dgamma, dbeta});
  if (const auto* synchronized = context.node.attributes.find("synchronized"))
    attributes.set("synchronized", *synchronized);
  if (context.wanted[0]) gradients[0] = add("batch_norm_grad", 0);
  return gradients;
}

/// Adds the gradients of batch_norm_predict, which is linear in x because the statistics are given.
/// With r = 1 / sqrt(variance + epsilon): dx = dy gamma r, dmean = -dbeta gamma r, dvariance =
/// -dgamma gamma r r / 2.
std::vector<ValueId> batch_norm_predict_gradient(GradientContext& context) {
  const ir::Attribute& axis = *context.node.attributes.find("axis");
  const ir::Attribute& epsilon = *context.node.attributes.find("epsilon");
  const ValueId dy = context.gradient(), gamma = context.operand(1), mean = context.operand(3),
                variance = context.operand(4);
  const auto constant = [&](std::string_view part, double value) {
    const ir::Value channels = context.value_of(variance);
    return context.fill(0, value, channels.shape, channels.dtype, part);
  };
  const ValueId zeros = constant("zeros", 0);
  const auto times_r = [&](size_t i, ValueId value, ValueId factor, const ir::Attribute& along,
                           std::string_view part = {}) {
    return context.add("batch_norm_predict", i, {value, factor, zeros, zeros, variance},
                       {{"axis", along}, {"epsilon", epsilon}}, part);
  };
  std::vector<ValueId> gradients(5);
  if (context.wanted[0]) gradients[0] = times_r(0, dy, gamma, axis);
  if (std::find(context.wanted.begin() + 1, context.wanted.end(), true) == context.wanted.end())
    return gradients;
  const ValueId dgamma =
      context.add("batch_norm_grad_affine", 1,
                  {dy, context.operand(0), gamma, context.operand(2), mean, variance},
                  {{"axis", axis}, {"epsilon", epsilon}});
  if (!dgamma.valid()) return gradients;
  const ValueId dbeta = context.builder.graph().producer_of(dgamma)->results[1];
  gradients[1] = dgamma;
  gradients[2] = dbeta;
  const ir::Attribute channel_axis = int64_t{0};
  if (context.wanted[3])
    gradients[3] = context.add("negative", 3, {times_r(3, dbeta, gamma, channel_axis, "scaled")});
  if (context.wanted[4]) {
    const ValueId once = times_r(4, dgamma, gamma, channel_axis, "once");
    const ValueId twice = times_r(4, once, constant("ones", 1), channel_axis, "twice");
    gradients[4] = context.add("scale", 4, {twice}, {{"factor", -0.5}});
  }
  return gradients;
}

}  // namespace

std::vector<Rules> batch_norm() {
  return {{"batch_normalization", nullptr, expand_batch_normalization},
          {"batch_norm", batch_norm_gradient},
          {"batch_norm_predict", batch_norm_predict_gradient}};
}

}  // namespace flow::grad
