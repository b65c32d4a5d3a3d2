// Random numbers, and dropout, which has no effect in a predict job. Each runtime draws its numbers
// in its own way, so seeds are not translated: the draws of flow depend on the seed of the job.
#include <algorithm>
#include <limits>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// A node that draws numbers with the shape of the result. If there is an operand, this is the
/// operand's shape.
struct Draw {
  std::string type;
  std::vector<std::string> inputs;
  NodeAttributes attributes;
};

Draw draw_of(const StepExport& step, std::string type, NodeAttributes attributes) {
  attributes.push_back({"dtype", data_type_of(step.out().dtype)});
  if (step.operands() > 0) return {type + "Like", {step.in().name}, std::move(attributes)};
  const Integers& shape = step.integers("shape");
  attributes.push_back({"shape", shape.empty() ? Integers{1} : shape});
  return {std::move(type), {}, std::move(attributes)};
}

void add_draw(StepExport& step, const Draw& draw) {
  if (step.out().shape.rank() > 0 || step.operands() > 0)
    return step.result(draw.type, draw.inputs, draw.attributes);
  const std::string one = step.node(draw.type, draw.inputs, draw.attributes);
  step.result("Reshape", {one, step.vector({})});
}

void random_normal(StepExport& step) {
  add_draw(step, draw_of(step, "RandomNormal",
                         {{"mean", step.float32("mean")}, {"scale", step.float32("stddev")}}));
}

void random_uniform(StepExport& step) {
  add_draw(step, draw_of(step, "RandomUniform",
                         {{"low", step.float32("minimum")}, {"high", step.float32("maximum")}}));
}

/// Writes -log(-log(u)), where u is never 0.
void gumbel(StepExport& step) {
  const Draw draw = draw_of(step, "RandomUniform", {{"low", 0x1p-25F}, {"high", 1.0F}});
  const std::string u = step.node(draw.type, draw.inputs, draw.attributes);
  const std::string y =
      step.node("Neg", {step.node("Log", {step.node("Neg", {step.node("Log", {u})})})});
  step.result("Reshape", {y, step.reshaping(step.out().shape, step.out().batch_axis)});
}

void bernoulli(StepExport& step) {
  step.result("Bernoulli", step.names(), {{"dtype", data_type_of(step.out().dtype)}});
}

/// Multinomial expects rows of logarithms of probabilities.
void draw_indices(StepExport& step) {
  const Value& x = step.in();
  const auto samples = step.attribute<int64_t>("samples");
  const int64_t classes = x.shape[x.shape.rank() - 1];
  const std::string rows =
      step.node("Reshape", {step.node("Log", {x.name}), step.vector({-1, classes})});
  const NodeAttributes attributes = {{"dtype", data_type_of(DType::kInt64)},
                                     {"sample_size", samples}};
  if (x.shape.rank() == 2) return step.result("Multinomial", {rows}, attributes);
  step.result("Reshape", {step.node("Multinomial", {rows}, attributes),
                          step.reshaping(step.out().shape, step.out().batch_axis)});
}

/// The logits from the largest to the smallest, and their tokens.
struct SortedLogits {
  std::string logits, tokens;
};

/// Hides the tokens after the smallest set of most likely tokens whose probabilities add up to at
/// least `top_p`.
std::string keep_likeliest(StepExport& step, const std::string& sorted, double top_p) {
  const NodeAttributes last = {{"axis", -1}};
  const std::string before =
      step.node("CumSum", {step.node("Softmax", {sorted}, last), step.number(1, DType::kInt64)},
                {{"exclusive", 1}});
  const std::string kept = step.node("Less", {before, step.number(top_p)});
  const double hidden = std::numeric_limits<float>::lowest();
  return step.node("Where", {kept, sorted, step.number(hidden)});
}

SortedLogits sort_logits(StepExport& step, const std::string& rows) {
  const Value& x = step.in();
  const int64_t tokens = x.shape[x.shape.rank() - 1];
  const auto top_k = step.attribute<int64_t>("top_k");
  const int64_t kept = top_k > 0 ? std::min(top_k, tokens) : tokens;
  const std::vector<std::string> sorted =
      step.nodes("TopK", {rows, step.vector({kept})}, 2, {{"axis", -1}});
  const auto top_p = step.attribute<double>("top_p");
  return {top_p < 1 ? keep_likeliest(step, sorted[0], top_p) : sorted[0], sorted[1]};
}

/// The operand with the position is not exported, because it only seeds the draws of flow.
void sample(StepExport& step) {
  const Value& x = step.in();
  const auto temperature = step.attribute<double>("temperature");
  if (x.batch_axis == ops::kBatchReduced || x.batch_axis == x.shape.rank() - 1) step.fix_batch();
  const NodeAttributes to_result = {{"to", data_type_of(step.out().dtype)}};
  if (temperature == 0) {
    const std::string largest = step.node("ArgMax", {x.name}, {{"axis", -1}, {"keepdims", 0}});
    return step.result("Cast", {largest}, to_result);
  }
  const std::string rows =
      step.node("Reshape", {x.name, step.vector({-1, x.shape[x.shape.rank() - 1]})});
  const auto [logits, tokens] =
      sort_logits(step, step.node("Div", {rows, step.number(temperature)}));
  const std::string drawn = step.node("Multinomial", {logits},
                                      {{"dtype", data_type_of(DType::kInt64)}, {"sample_size", 1}});
  const std::string token = step.node("GatherElements", {tokens, drawn}, {{"axis", 1}});
  const std::string shaped =
      step.node("Reshape", {token, step.reshaping(step.out().shape, step.out().batch_axis)});
  step.result("Cast", {shaped}, to_result);
}

/// Returns the dtype of a draw. Floats get the dtype in which the job computes.
DType drawn_dtype(NodeImport& node, DType otherwise) {
  node.ignore("seed");
  DType dtype = otherwise;
  if (const auto* found = node.find("dtype", pb::AttributeProto::INT))
    dtype = read_dtype(static_cast<int>(found->i()));
  return is_float(dtype) ? node.compute_dtype() : dtype;
}

/// Draws numbers with a given shape, or with the shape of the operand.
Tensors draw(NodeImport& node) {
  if (!is_float(drawn_dtype(node, DType::kFloat32))) refuse("integers (dtype)");
  ops::Attributes attributes;
  const bool normal = node.op() == "random_normal";
  attributes.set(normal ? "mean" : "minimum", node.number(normal ? "mean" : "low", 0));
  attributes.set(normal ? "stddev" : "maximum", node.number(normal ? "scale" : "high", 1));
  const auto shape = node.integers("shape");
  if (!shape) return {node.call(node.op(), {node.operand(0)}, attributes)};
  attributes.set("shape", *shape);
  return {node.call(node.op(), {}, attributes)};
}

Tensors bernoulli(NodeImport& node) {
  const DType dtype = drawn_dtype(node, node.in(0).dtype);
  return {node.call("bernoulli", {node.operand(0)}, {{"dtype", dtype}})};
}

Tensors multinomial(NodeImport& node) {
  const DType dtype = drawn_dtype(node, DType::kInt32);
  const Tensor x = node.operand(0);
  if (x.shape.rank() != 2) refuse("operand {}", x.shape.str());
  const int64_t samples = node.integer("sample_size", 1);
  Tensor drawn = node.layer("multinomial", {x}, {{"samples", samples}}, Shape{x.shape[0], samples},
                            x.batch_axis == 0 ? 0 : ops::kNoBatch);
  drawn.dtype = DType::kInt64;
  if (!x.sizes.empty()) drawn.sizes = {x.size(0), fixed(samples)};
  return {node.cast(drawn, dtype)};
}

/// Returns the mask of Dropout, which is true for all elements.
Tensor all_true(NodeImport& node, const Tensor& x) {
  const Tensor is_nan = node.call("isnan", {x});
  return node.call("logical_or", {is_nan, node.call("logical_not", {is_nan})});
}

Tensors dropout(NodeImport& node) {
  for (const std::string_view name : {"seed", "is_test", "ratio"}) node.ignore(name);
  const auto is_zero = [&](int i) {
    const Array value = converted(node.value(i), DType::kFloat64);
    return value.shape().elements() == 1 && value.as<double>()[0] == 0;
  };
  if (node.has(2) && !is_zero(2) && (!node.has(1) || !is_zero(1)))
    refuse("random numbers (training_mode)");
  Tensors results = {node.in(0)};
  if (node.is_read(1)) results.push_back(all_true(node, node.operand(0)));
  return results;
}

constexpr Rule kRandomRules[] = {
    {"random_normal", "RandomNormal", random_normal, draw},
    {"random_normal", "RandomNormalLike", nullptr, draw},
    {"random_uniform", "RandomUniform", random_uniform, draw},
    {"random_uniform", "RandomUniformLike", nullptr, draw},
    {"gumbel", "", gumbel},
    {"bernoulli", "Bernoulli", bernoulli, bernoulli},
    {"draw_indices", "Multinomial", draw_indices, multinomial},
    {"sample", "", sample},
    {"", "Dropout", nullptr, dropout},
};

}  // namespace

std::span<const Rule> random_rules() { return kRandomRules; }

}  // namespace flow::onnx
