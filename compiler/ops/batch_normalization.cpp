// Batch normalization: the layer, with the statistics that it keeps; its primitives, one for train
// jobs with its gradients, one for predict jobs.
#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "compiler/ops/normalization.h"

namespace flow::defs {
namespace {

using ir::kNoRows;
using ir::ValueId;

/// The value of a variable after the calls of the layer so far.
ValueId latest(const ir::Graph& graph, ValueId variable) {
  const ValueId updated = graph.variable_of(variable)->updated;
  return updated.valid() ? updated : variable;
}

/// The moving statistics take in those of this call. `normalised`: the first result of batch_norm.
void move_statistics(const LayerContext& context, ValueId normalised, ValueId moving_mean,
                     ValueId moving_variance) {
  ir::Graph& graph = context.builder.graph();
  const ir::Node& node = *graph.producer_of(normalised);
  const ir::Value& x = graph[node.operands[0]];
  const int64_t count = x.shape.elements() / graph[moving_mean].shape.elements();
  // The variance of a sample is that of where it comes from times (n - 1) / n.
  const double unbias =
      static_cast<double>(count) / static_cast<double>(std::max<int64_t>(count - 1, 1));
  const ValueId moved = context.builder.add(
      "move_statistics", graph[moving_mean].name + ":update",
      {node.results[1], node.results[2], latest(graph, moving_mean),
       latest(graph, moving_variance)},
      {{"momentum", *context.attributes.find("momentum")}, {"unbias", unbias}}, context.spans.op);
  if (!moved.valid()) return;
  graph.set_updated(moving_mean, moved);
  graph.set_updated(moving_variance, graph.producer_of(moved)->results[1]);
}

ValueId expand_batch_normalization(LayerContext& context) {
  const ir::Value x = context.operand(0);
  CallSite site = context.site();
  const auto axis = axis_in_range(site, context.attributes.get<int64_t>("axis"), x.shape);
  if (!axis) return {};
  const Shape channels{x.shape[*axis]};
  const auto [gamma, beta] =
      add_affine(context, x.dtype, channels, context.attributes.get<bool>("scale"),
                 context.attributes.get<bool>("center"));
  const ValueId mean =
      context.add_variable("moving_mean", {"zeros", {}, {}}, x.dtype, channels, false);
  const ValueId variance =
      context.add_variable("moving_variance", {"ones", {}, {}}, x.dtype, channels, false);
  const ir::Attributes attributes{{"axis", int64_t{*axis}},
                                  {"epsilon", *context.attributes.find("epsilon")}};
  if (!context.train)
    return context.add("batch_norm_predict", "normalize",
                       {context.operands[0], gamma, beta, mean, variance}, attributes);
  const ValueId y =
      context.add("batch_norm", "normalize", {context.operands[0], gamma, beta}, attributes);
  if (y.valid() && mean.valid() && variance.valid() && context.trainable)
    move_statistics(context, y, mean, variance);
  return y;
}

void infer_batch_norm(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& x = inference.operand(0);
  const Shape channels{x.shape[*axis]};
  if (!have_shape(inference, 1, 3, channels)) return;
  inference.result(x.dtype, x.shape, rows_along(x.rows, *axis));
  for (int i = 0; i < 2; ++i) inference.result(x.dtype, channels, rows_of_vector(x.rows, *axis));
}

void infer_batch_norm_predict(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& x = inference.operand(0);
  if (have_shape(inference, 1, 5, {x.shape[*axis]})) inference.result(x.dtype, x.shape, x.rows);
}

/// dy and x of one shape, then vectors along the channels.
std::optional<int> axis_of_gradient(Inference& inference, size_t operands) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis || !have_shape(inference, 1, 2, inference.shape(0)) ||
      !have_shape(inference, 2, operands, {inference.shape(0)[*axis]}))
    return {};
  return axis;
}

void infer_batch_norm_grad_affine(Inference& inference) {
  const auto axis = axis_of_gradient(inference, 6);
  if (!axis) return;
  const ir::Value& dy = inference.operand(0);
  for (int i = 0; i < 2; ++i)
    inference.result(dy.dtype, {dy.shape[*axis]}, rows_of_vector(dy.rows, *axis));
}

void infer_batch_norm_grad(Inference& inference) {
  const auto axis = axis_of_gradient(inference, 8);
  if (!axis) return;
  const ir::Value& dy = inference.operand(0);
  inference.result(dy.dtype, dy.shape, rows_along(dy.rows, *axis));
}

/// The gradients of gamma and beta are sums that the gradient of x is made from, too.
std::vector<ValueId> batch_norm_gradient(GradientContext& context) {
  const ir::Attributes& forward = context.node.attributes;
  std::vector<ValueId> operands = {context.gradient(), context.operand(0), context.operand(1),
                                   context.operand(2), context.result(1),  context.result(2)};
  const auto add = [&](std::string_view op, size_t i) {
    return context.add(op, i, operands,
                       {{"axis", *forward.find("axis")}, {"epsilon", *forward.find("epsilon")}});
  };
  const ValueId dgamma = add("batch_norm_grad_affine", 1);
  if (!dgamma.valid()) return std::vector<ValueId>(3);
  const ir::Graph& graph = context.builder.graph();
  const ValueId dbeta = graph.producer_of(dgamma)->results[1];
  std::vector<ValueId> gradients = {{}, dgamma, dbeta};
  operands.insert(operands.end(), {dgamma, dbeta});
  if (context.wanted[0]) gradients[0] = add("batch_norm_grad", 0);
  return gradients;
}

/// With given statistics the result is linear in x. Where r = 1 / sqrt(variance + epsilon):
/// dx = dy gamma r, dmean = -dbeta gamma r, dvariance = -dgamma gamma r r / 2.
std::vector<ValueId> batch_norm_predict_gradient(GradientContext& context) {
  const ir::Attribute& axis = *context.node.attributes.find("axis");
  const ir::Attribute& epsilon = *context.node.attributes.find("epsilon");
  const ValueId dy = context.gradient(), gamma = context.operand(1), mean = context.operand(3),
                variance = context.operand(4);
  const auto constant = [&](std::string_view part, double value) {
    const ir::Value& channels = context.value_of(variance);
    return context.add(
        "fill", 0, {},
        {{"value", value}, {"shape", channels.shape.extents()}, {"dtype", channels.dtype}}, part);
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
    gradients[3] =
        context.add("negative", 3, {times_r(3, dbeta, gamma, channel_axis, "scaled")}, {});
  if (context.wanted[4]) {
    const ValueId once = times_r(4, dgamma, gamma, channel_axis, "once");
    const ValueId twice = times_r(4, once, constant("ones", 1), channel_axis, "twice");
    gradients[4] = context.add("scale", 4, {twice}, {{"factor", -0.5}});
  }
  return gradients;
}

void infer_move_statistics(Inference& inference) {
  const Shape& shape = inference.shape(0);
  if (!have_shape(inference, 1, 4, shape)) return;
  for (size_t i = 2; i < 4; ++i) inference.result(inference.operand(i).dtype, shape, kNoRows);
}

std::vector<AttributeDef> primitive_attributes() {
  return {{"axis", AttributeType::kInteger, "1", "channel axis"}, epsilon_attribute("0.001")};
}

std::vector<AttributeDef> gradient_attributes() {
  std::vector<AttributeDef> attributes = primitive_attributes();
  attributes.push_back(
      {"rectified", AttributeType::kBool, "false",
       "dy is the gradient of relu(result): it counts as 0 where the result is at most 0"});
  return attributes;
}

AttributeDef fraction(std::string_view name, std::string_view fallback, std::string_view doc) {
  return {.name = name,
          .type = AttributeType::kNumber,
          .fallback = fallback,
          .doc = doc,
          .min = 0,
          .max = 1};
}

std::vector<OperandDef> with_statistics(std::vector<OperandDef> operands) {
  operands.push_back({"mean", "(C)"});
  operands.push_back({"variance", "(C), biased"});
  return operands;
}

std::vector<OperandDef> gradient_operands() {
  return with_statistics({{"dy", "any shape that has the axis"},
                          {"x", "same shape as dy"},
                          {"gamma", "(C)"},
                          {"beta", "(C)"}});
}

std::vector<OperandDef> with_sums(std::vector<OperandDef> operands) {
  operands.push_back({"dgamma", "(C)"});
  operands.push_back({"dbeta", "(C)"});
  return operands;
}

}  // namespace

std::span<const OpDef> batch_normalization() {
  static const OpDef kOps[] = {
      {
          .name = "batch_normalization",
          .doc = "Batch normalization (Ioffe and Szegedy, 2015): batch statistics in training, "
                 "moving averages in inference mode.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = {{"in", "any shape that has the axis"}},
          .attributes = {{"axis", AttributeType::kInteger, "1", "channel axis"},
                         fraction("momentum", "0.99",
                                  "decay of the moving averages: fraction to keep in a train step"),
                         epsilon_attribute("0.001"),
                         center_attribute(),
                         scale_attribute()},
          .expand = expand_batch_normalization,
          .takes_variables = true,
          .trains_otherwise = true,
      },
      {
          .name = "batch_norm",
          .doc = "Normalizes each channel by its batch mean and biased variance.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = {{"x", "any shape that has the axis"}, {"gamma", "(C)"}, {"beta", "(C)"}},
          .attributes = primitive_attributes(),
          .results = {"out", "mean", "variance"},
          .infer = infer_batch_norm,
          .gradient = batch_norm_gradient,
          .internal = true,
          .examples = {"batch_norm(f32[4,3,2,2], f32[3], f32[3])",
                       "batch_norm(f32[7,5], f32[5], f32[5]) epsilon=0.1",
                       "batch_norm(f32[2,3,5], f32[5], f32[5]) axis=-1",
                       "batch_norm(f32[2,70,3], f32[2], f32[2]) axis=0"},
      },
      {
          .name = "batch_norm_predict",
          .doc = "Normalizes each channel by given statistics.",
          .formula = "y = (x - mean) / sqrt(variance + epsilon) * gamma + beta",
          .operands = with_statistics(
              {{"x", "any shape that has the axis"}, {"gamma", "(C)"}, {"beta", "(C)"}}),
          .attributes = primitive_attributes(),
          .infer = infer_batch_norm_predict,
          .gradient = batch_norm_predict_gradient,
          .elementwise = true,
          .internal = true,
          .examples = {"batch_norm_predict(f32[4,3,2,2], f32[3], f32[3], f32[3], f32[3]) epsilon=2",
                       "batch_norm_predict(f32[2,70], f32[2], f32[2], f32[2], f32[2]) epsilon=3 "
                       "axis=0"},
      },
      {
          .name = "batch_norm_grad_affine",
          .doc = "Gradients of batch_norm with respect to gamma and beta.",
          .formula = "dgamma = sum dy (x - mean) / sqrt(variance + epsilon), dbeta = sum dy",
          .operands = gradient_operands(),
          .attributes = gradient_attributes(),
          .results = {"out", "dbeta"},
          .infer = infer_batch_norm_grad_affine,
          .internal = true,
      },
      {
          .name = "batch_norm_grad",
          .doc = "Gradient of batch_norm with respect to x.",
          .formula = "dx = gamma r (dy - dbeta / n - (x - mean) r dgamma / n), "
                     "r = 1 / sqrt(variance + epsilon)",
          .operands = with_sums(gradient_operands()),
          .attributes = gradient_attributes(),
          .infer = infer_batch_norm_grad,
          .elementwise = true,
          .internal = true,
      },
      {
          .name = "move_statistics",
          .doc = "Updates the moving averages with the statistics of one batch.",
          .formula = "updated = momentum moving + (1 - momentum) batch, with the batch variance "
                     "times unbias",
          .operands = {{"mean", "(C), of the batch"},
                       {"variance", "(C), of the batch, biased"},
                       {"moving_mean", "(C)"},
                       {"moving_variance", "(C)"}},
          .attributes = {fraction("momentum", "", "fraction of the old average to keep"),
                         {"unbias", AttributeType::kNumber, "",
                          "n / (n - 1) for a variance over n elements"}},
          .results = {"out", "updated_variance"},
          .infer = infer_move_statistics,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
