// Nodes that draw random numbers. A runtime of ONNX draws its own.
#include <algorithm>
#include <limits>

#include "runtime/onnx/proto.h"
#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;

/// A node that draws numbers of the result's shape, which is that of the operand where there is
/// one.
struct Draw {
  std::string type;
  std::vector<std::string> inputs;
  NodeAttributes attributes;
};

Draw draw_of(const StepExport& step, std::string type, NodeAttributes attributes) {
  attributes.push_back({"dtype", int64_t{data_type_of(step.out().dtype)}});
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

float number(const StepExport& step, std::string_view attribute) {
  return static_cast<float>(step.attribute<double>(attribute));
}

void random_normal(StepExport& step) {
  add_draw(step, draw_of(step, "RandomNormal",
                         {{"mean", number(step, "mean")}, {"scale", number(step, "stddev")}}));
}

void random_uniform(StepExport& step) {
  add_draw(step, draw_of(step, "RandomUniform",
                         {{"low", number(step, "minimum")}, {"high", number(step, "maximum")}}));
}

/// -log(-log(u)), where u is never 0.
void gumbel(StepExport& step) {
  const Draw draw = draw_of(step, "RandomUniform", {{"low", 0x1p-25F}, {"high", 1.0F}});
  const std::string u = step.node(draw.type, draw.inputs, draw.attributes);
  const std::string y =
      step.node("Neg", {step.node("Log", {step.node("Neg", {step.node("Log", {u})})})});
  step.result("Reshape", {y, step.reshaping(step.out().shape, step.out().batch_axis)});
}

void bernoulli(StepExport& step) {
  step.result("Bernoulli", step.names(), {{"dtype", int64_t{data_type_of(step.out().dtype)}}});
}

/// Multinomial takes rows of logarithms.
void draw_indices(StepExport& step) {
  const Value& x = step.in();
  const auto samples = step.attribute<int64_t>("samples");
  const int64_t classes = x.shape[x.shape.rank() - 1];
  const std::string rows =
      step.node("Reshape", {step.node("Log", {x.name}), step.vector({-1, classes})});
  const NodeAttributes attributes = {{"dtype", int64_t{data_type_of(DType::kInt64)}},
                                     {"sample_size", samples}};
  if (x.shape.rank() == 2) return step.result("Multinomial", {rows}, attributes);
  step.result("Reshape", {step.node("Multinomial", {rows}, attributes),
                          step.reshaping(step.out().shape, step.out().batch_axis)});
}

/// Logits from the largest to the smallest, and their tokens.
struct SortedLogits {
  std::string logits, tokens;
};

/// Hides tokens behind the fewest likeliest whose probabilities reach `top_p`.
std::string keep_likeliest(StepExport& step, const std::string& sorted, double top_p) {
  const NodeAttributes last = {{"axis", int64_t{-1}}};
  const std::string before =
      step.node("CumSum", {step.node("Softmax", {sorted}, last), step.number(1, DType::kInt64)},
                {{"exclusive", int64_t{1}}});
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
      step.nodes("TopK", {rows, step.vector({kept})}, 2, {{"axis", int64_t{-1}}});
  const auto top_p = step.attribute<double>("top_p");
  return {top_p < 1 ? keep_likeliest(step, sorted[0], top_p) : sorted[0], sorted[1]};
}

/// The position seeds draws of flow alone.
void sample(StepExport& step) {
  const Value& x = step.in();
  const auto temperature = step.attribute<double>("temperature");
  if (x.batch_axis == ops::kBatchReduced || x.batch_axis == x.shape.rank() - 1) step.fix_batch();
  const NodeAttributes to_result = {{"to", int64_t{data_type_of(step.out().dtype)}}};
  if (temperature == 0) {
    const std::string largest =
        step.node("ArgMax", {x.name}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
    return step.result("Cast", {largest}, to_result);
  }
  const std::string rows =
      step.node("Reshape", {x.name, step.vector({-1, x.shape[x.shape.rank() - 1]})});
  const auto [logits, tokens] =
      sort_logits(step, step.node("Div", {rows, step.number(temperature)}));
  const std::string drawn =
      step.node("Multinomial", {logits},
                {{"dtype", int64_t{data_type_of(DType::kInt64)}}, {"sample_size", int64_t{1}}});
  const std::string token = step.node("GatherElements", {tokens, drawn}, {{"axis", int64_t{1}}});
  const std::string shaped =
      step.node("Reshape", {token, step.reshaping(step.out().shape, step.out().batch_axis)});
  step.result("Cast", {shaped}, to_result);
}

constexpr ExportRule kRandom[] = {
    {"random_normal", random_normal}, {"random_uniform", random_uniform}, {"gumbel", gumbel},
    {"bernoulli", bernoulli},         {"draw_indices", draw_indices},     {"sample", sample},
};

}  // namespace

std::span<const ExportRule> random_rules() { return kRandom; }

}  // namespace flow::onnx
