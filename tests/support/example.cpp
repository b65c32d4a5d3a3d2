// The ops' own examples as jobs, for tests that run them on kernels.
#include "tests/support/example.h"

#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/ir/call_site.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/passes.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::test {
namespace {

using ir::Attribute;
using ir::ValueId;

DType dtype_from(std::string_view text, bool float64) {
  if (text == "f32") return float64 ? DType::kFloat64 : DType::kFloat32;
  if (text == "f64") return DType::kFloat64;
  if (text == "i8") return DType::kInt8;
  if (text == "i32") return DType::kInt32;
  if (text == "i64") return DType::kInt64;
  if (text == "u8") return DType::kUInt8;
  FLOW_CHECK(text == "bool", "`{}`", text);
  return DType::kBool;
}

class Example {
 public:
  Example(std::string_view text, bool float64)
      : float64_(float64), diags_(sources_), builder_(graph_, diags_) {
    graph_.compute_dtype = float64 ? DType::kFloat64 : DType::kFloat32;
    const size_t open = text.find('('), close = text.find(')');
    FLOW_CHECK(close != std::string_view::npos, "`{}`", text);
    op_ = ops::find_spec(text.substr(0, open));
    FLOW_CHECK(op_, "`{}`", text);
    add_inputs(text.substr(open + 1, close - open - 1));
    add_call(attributes_from(text.substr(close + 1)));
    for (const ValueId result : results_) returned_.push_back(result);
  }

  bool is_valid() const { return !diags_.has_errors(); }

  bool has_gradient() const {
    require_valid();
    const auto is_number = [this](ValueId id) { return graph_[id].dtype == graph_.compute_dtype; };
    const bool is_layer = !op_->infer;
    return (is_layer || grad::rules_of(*op_).gradient) && is_number(results_[0]) &&
           std::ranges::any_of(graph_.inputs, is_number);
  }

  /// Goes on with sum(out * in_cotangent) and its gradients.
  void differentiate() {
    FLOW_CHECK(has_gradient(), "{} has no gradient", op_->name);
    const std::vector<ValueId> inputs = graph_.inputs;
    const ir::Value out = graph_[results_[0]];
    const ValueId cotangent =
        builder_.add_input("in_cotangent", out.dtype, out.shape, ir::kNoBatch, Span());
    const ValueId product = builder_.add("multiply", "product", {results_[0], cotangent}, {}, {});
    passes::Context context;
    context.training.emplace();
    context.training->losses = {
        {builder_.add("reduce_sum", "loss", {product}, {}, {}), "loss", Span()}};
    for (const ValueId input : inputs)
      if (graph_[input].dtype == graph_.compute_dtype) context.training->variables.push_back(input);
    passes::autodiff(graph_, context, diags_);
    require_valid();
    for (const ValueId input : context.training->variables)
      if (const ValueId gradient = graph_.gradient_of(input); gradient.valid())
        returned_.push_back(gradient);
  }

  plan::Job job() {
    require_valid();
    graph_.results = returned_;
    passes::Context context;
    passes::drop_stop_gradients(graph_, context, diags_);
    passes::remove_dead(graph_, context, diags_);
    ir::verify(graph_);
    plan::Job job;
    job.name = "example";
    job.precision = float64_ ? "float64" : "float32";
    const Lowered lowered = lower(graph_, sources_, job);
    for (const ValueId input : graph_.inputs)
      job.inputs.push_back({lowered.tensor_of[input.index()], plan::FromCommandLine{}, "", ""});
    job.returns = returns(lowered);
    plan::assign_lifetimes(job);
    return job;
  }

 private:
  void require_valid() const { FLOW_CHECK(is_valid(), "{}: {}", op_->name, diags_.render()); }

  void add_call(ir::Attributes attributes) {
    const AttributeSpans spans;
    if (op_->infer)
      results_ = builder_.add(*op_, "out", graph_.inputs, std::move(attributes), spans);
    else
      results_ = {builder_.add_layer(
          *op_, {builder_, "out", graph_.inputs, std::move(attributes), {}, spans})};
  }

  /// "f32[3,4], i64[]"
  void add_inputs(std::string_view text) {
    while (!text.empty()) {
      const size_t open = text.find('['), close = text.find(']');
      FLOW_CHECK(close != std::string_view::npos, "`{}`", text);
      const DType dtype = dtype_from(text.substr(0, open), float64_);
      const Attribute extents =
          attribute_from(ops::AttributeType::kIntegers, text.substr(open, close - open + 1));
      const Shape shape(std::get<std::vector<int64_t>>(extents));
      builder_.add_input("in" + std::to_string(graph_.inputs.size()), dtype, shape, ir::kNoBatch,
                         Span());
      text.remove_prefix(std::min(text.size(), close + 1));
      text.remove_prefix(std::min(text.size(), text.find_first_not_of(", ")));
    }
  }

  /// " axis=1 keepdims=true"
  ir::Attributes attributes_from(std::string_view text) const {
    ir::Attributes attributes;
    for (const std::string& word : flow::split(text, ' ')) {
      if (word.empty()) continue;
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const ops::AttributeSpec* def = op_->attribute(name);
      FLOW_CHECK(def, "{} has no attribute `{}`", op_->name, name);
      Attribute value = attribute_from(def->type, std::string_view(word).substr(equals + 1));
      if (float64_ && value == Attribute(DType::kFloat32)) value = DType::kFloat64;
      attributes.set(name, std::move(value));
    }
    return attributes;
  }

  plan::Returns returns(const Lowered& lowered) const {
    std::vector<plan::ReturnValue> leaves;
    std::vector<std::string> types(returned_.size(), "Numpy");
    for (const ValueId value : returned_) {
      plan::ReturnValue leaf;
      leaf.tensor = lowered.tensor_of[value.index()];
      leaf.name = "out" + std::to_string(leaves.size());
      leaves.push_back(std::move(leaf));
    }
    plan::Returns made;
    made.sinks = {plan::NoSink{}};
    if (leaves.size() == 1) {
      made.type = "Numpy";
      made.value = leaves.front();
      return made;
    }
    made.type = "Tuple[" + join(types, ", ") + "]";
    made.value.kind = plan::ReturnValue::Kind::kTuple;
    made.value.items = std::move(leaves);
    return made;
  }

  const bool float64_;
  Sources sources_;
  ir::Graph graph_;
  Diags diags_;
  ir::Builder builder_;
  const ops::OpSpec* op_ = nullptr;
  std::vector<ValueId> results_, returned_;
};

}  // namespace

plan::Job job_of_example(std::string_view example, bool float64) {
  return Example(example, float64).job();
}

bool is_valid_example(std::string_view example, bool float64) {
  return Example(example, float64).is_valid();
}

bool has_gradient(std::string_view example, bool float64) {
  return Example(example, float64).has_gradient();
}

plan::Job gradient_job_of_example(std::string_view example, bool float64) {
  Example made(example, float64);
  made.differentiate();
  return made.job();
}

}  // namespace flow::test
