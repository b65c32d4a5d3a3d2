// Writes the steps of a plan as nodes of ONNX.
#include "runtime/onnx/onnx.h"

#include <flow_version.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/onnx/rules.h"
#include "runtime/plan/model/precision.h"

namespace flow::onnx {
namespace {

using plan::TensorId;

constexpr const char* kBatchName = "batch";

/// An output of the ONNX model: its name and its tensor.
struct Output {
  std::string name;
  TensorId tensor;
};

/// Adds the tensors of a returned value. `keys` are the keys of the Dicts that contain it, joined
/// with slashes.
void add_returned(const plan::ReturnValue& value, const std::string& keys,
                  std::vector<Output>& outputs) {
  if (value.is_leaf()) {
    outputs.push_back({keys.empty() ? value.name : keys, value.tensor});
    return;
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    const bool keyed = value.kind == plan::ReturnValue::Kind::kDict;
    add_returned(value.items[i],
                 !keyed         ? keys
                 : keys.empty() ? value.keys[i]
                                : keys + "/" + value.keys[i],
                 outputs);
  }
}

std::vector<Output> outputs_of(const plan::Job& job) {
  std::vector<Output> outputs;
  if (job.returns) add_returned(job.returns->value, "", outputs);
  if (!outputs.empty()) return outputs;
  std::set<TensorId> seen;
  for (const plan::Hook& hook : job.hooks)
    if (seen.insert(hook.tensor).second) outputs.push_back({hook.name, hook.tensor});
  return outputs;
}

/// Returns the rule that writes an op, or null if ONNX cannot express the op.
const Rule* find_writer(const ops::OpSpec* op) {
  static const auto kRules = [] {
    std::map<const ops::OpSpec*, const Rule*> rules;
    for (const Rule& rule : all_rules())
      if (rule.write) rules.emplace(ops::find_spec(rule.op), &rule);
    return rules;
  }();
  const auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : found->second;
}

void require_exportable(const plan::Job& job) {
  const auto refuse = [&](std::string_view what, std::string hint) {
    throw RequestError(fmt::format("{}: job `{}` {}", job.where, job.name, what), std::move(hint));
  };
  if (job.train) refuse("trains; only predict jobs are exported", "name a predict job with --job");
  if (job.loop)
    refuse("has a loop; generation loops are left out",
           "export a job that makes one pass, without `loop`");
  if (job.sharding)
    refuse("has shards", fmt::format("export it without: --set jobs.{}.shards=1", job.name));
  if (plan::low_precision_of(job.precision))
    refuse(fmt::format("computes in {}", job.precision),
           fmt::format("export it in float32: --set jobs.{}.precision=float32", job.name));
}

class JobExport {
 public:
  JobExport(const plan::Job& job, pb::GraphProto& graph)
      : job_(job), graph_(graph), state_{GraphWriter(graph)}, outputs_(outputs_of(job)) {
    if (outputs_.empty())
      throw RequestError(fmt::format("{}: job `{}` returns nothing", job.where, job.name),
                         "add `returns`");
    find_needed();
    require_rules();
    require_size();
  }

  void write(const ReadVariable& read) {
    name_inputs();
    name_results();
    for (const plan::Variable& variable : job_.variables)
      if (needed_.contains(variable.tensor)) write_variable(variable, read);
    for (const plan::Step& step : job_.steps)
      if (is_needed(step)) write_step(step);
    write_ends();
  }

  int64_t fixed_batch() const { return state_.fixed_batch.empty() ? 0 : rows_; }
  const std::string& fixed_by() const { return state_.fixed_batch; }

 private:
  bool is_needed(const plan::Step& step) const {
    return std::ranges::any_of(step.outputs, [&](TensorId id) { return needed_.contains(id); });
  }

  void find_needed() {
    for (const Output& output : outputs_) needed_.insert(output.tensor);
    for (auto step = job_.steps.rbegin(); step != job_.steps.rend(); ++step) {
      if (!is_needed(*step)) continue;
      const std::vector<TensorId> operands = operands_of(*step);
      needed_.insert(operands.begin(), operands.end());
      for (const plan::EpilogueOp& fused : step->epilogue)
        needed_.insert(fused.operands.begin(), fused.operands.end());
    }
    needed_.erase(TensorId());
  }

  static bool takes_product(const plan::Step& step) {
    const Rule* rule = find_writer(step.op.spec());
    return rule && rule->takes_product;
  }

  /// Returns the operands that the step's nodes read.
  std::vector<TensorId> operands_of(const plan::Step& step) const {
    return takes_product(step) ? recurrent_operands(job_, step).value_or(step.inputs) : step.inputs;
  }

  /// Throws RequestError, which lists all ops without a rule.
  void require_rules() const {
    std::vector<std::string> lines;
    const auto refuse = [&](const plan::Step& step, const ops::OpRef& op, const std::string& name) {
      lines.push_back(fmt::format("\n  {}: op `{}` of `{}`", step.where, op.name(), name));
    };
    const auto check = [&](const plan::Step& step, const ops::OpRef& op, const std::string& name) {
      if (!find_writer(op.spec())) refuse(step, op, name);
    };
    for (const plan::Step& step : job_.steps) {
      if (!is_needed(step)) continue;
      check(step, step.op, step.name);
      if (takes_product(step) && !recurrent_operands(job_, step)) refuse(step, step.op, step.name);
      for (const plan::EpilogueOp& fused : step.epilogue) check(step, fused.op, fused.name);
    }
    if (lines.empty()) return;
    throw RequestError(fmt::format("job `{}` has {} without an equivalent in ONNX:{}", job_.name,
                                   counted(lines.size(), "op"), join(lines, "")),
                       "replace them, or return tensors that do not depend on them");
  }

  /// Throws RequestError if the model is too large for a Protobuf message.
  void require_size() const {
    uint64_t bytes = 0;
    for (const plan::Variable& variable : job_.variables)
      if (needed_.contains(variable.tensor))
        bytes += bytes_of(job_[variable.tensor].shape, job_[variable.tensor].dtype);
    if (bytes >= uint64_t{std::numeric_limits<int32_t>::max()})
      throw RequestError(fmt::format("the variables of job `{}` have {}; a model of ONNX holds "
                                     "less than 2 GiB",
                                     job_.name, human_bytes(bytes)),
                         "export a smaller model, or only the weights, as .safetensors");
  }

  void name_inputs() {
    for (const plan::Input& input : job_.inputs) {
      const plan::Tensor& tensor = job_[input.tensor];
      if (!needed_.contains(input.tensor)) continue;
      if (tensor.batch_axis >= 0) rows_ = tensor.shape[tensor.batch_axis];
      names_[input.tensor] = state_.graph.fresh(tensor.name);
    }
  }

  /// Names the outputs first, so that they keep the names that users see. An input that is returned
  /// under its name needs no additional tensor.
  void name_results() {
    for (Output& output : outputs_) {
      const auto named = names_.find(output.tensor);
      if (named != names_.end() && named->second == output.name) continue;
      output.name = state_.graph.fresh(output.name);
      if (job_[output.tensor].role == plan::Role::kResult)
        names_.try_emplace(output.tensor, output.name);
    }
    for (const TensorId id : needed_)
      if (!names_.contains(id)) names_[id] = state_.graph.fresh(job_[id].name);
  }

  void write_variable(const plan::Variable& variable, const ReadVariable& read) {
    state_.graph.initializer(names_.at(variable.tensor), read(job_[variable.tensor]).view());
  }

  Value value_of(TensorId id) const {
    if (!id.valid()) return {.name = "", .dtype = DType::kFloat32, .shape = {}};
    const plan::Tensor& tensor = job_[id];
    return {needed_.contains(id) ? names_.at(id) : "", tensor.dtype, tensor.shape,
            tensor.batch_axis};
  }

  std::vector<Value> values_of(const std::vector<TensorId>& ids) const {
    std::vector<Value> values;
    for (const TensorId id : ids) values.push_back(value_of(id));
    return values;
  }

  /// Returns true if the first fused op is a bias that ONNX's operator takes as an operand.
  static bool takes_bias(const plan::Step& step) {
    return !step.epilogue.empty() && step.epilogue[0].op->epilogue == ops::Epilogue::kBias &&
           step.op->can_take(ops::Epilogue::kBias);
  }

  void write_step(const plan::Step& step) {
    std::vector<Value> operands = values_of(operands_of(step)), results = values_of(step.outputs);
    size_t fused = 0;
    if (takes_bias(step)) {
      for (const Value& bias : values_of(step.epilogue[0].operands)) operands.push_back(bias);
      fused = 1;
    }
    const Value last = results[0];
    if (fused < step.epilogue.size()) results[0].name = state_.graph.fresh(step.name);
    write_op(step.op, step.name, step.attributes, std::move(operands), results);
    for (; fused < step.epilogue.size(); ++fused) {
      const plan::EpilogueOp& op = step.epilogue[fused];
      std::vector<Value> all = values_of(op.operands);
      all.insert(all.begin(), results[0]);
      results = {last};
      if (fused + 1 < step.epilogue.size()) results[0].name = state_.graph.fresh(op.name);
      write_op(op.op, op.name, op.attributes, std::move(all), results);
    }
  }

  static bool has_8_bits(const Value& value) {
    return value.dtype == DType::kInt8 || value.dtype == DType::kUInt8;
  }

  /// Replaces an 8-bit integer with an int32 tensor that has a new name. Returns false for any
  /// other value.
  bool widen(Value& value, const std::string& step) {
    if (!has_8_bits(value) || value.name.empty()) return false;
    value.name = state_.graph.fresh(step + "/int32");
    value.dtype = DType::kInt32;
    return true;
  }

  void cast(const std::string& from, const std::string& to, DType dtype) {
    state_.graph.node("Cast", {from}, {to}, {{"to", data_type_of(dtype)}});
  }

  void write_op(const ops::OpRef& op, const std::string& name, const plan::Attributes& attributes,
                std::vector<Value> operands, std::vector<Value> results) {
    const Rule& rule = *find_writer(op.spec());
    const std::vector<Value> wanted = results;
    if (rule.widens) {
      for (Value& operand : operands) {
        const std::string given = operand.name;
        if (widen(operand, name)) cast(given, operand.name, operand.dtype);
      }
      for (Value& result : results) widen(result, name);
    }
    StepExport step(state_, name, rule.type, attributes, std::move(operands), results);
    for (size_t i = 0; rule.broadcasts && i < step.operands(); ++i) step.fix_batch_of_constant(i);
    rule.write(step);
    for (size_t i = 0; i < wanted.size(); ++i)
      if (results[i].name != wanted[i].name) cast(results[i].name, wanted[i].name, wanted[i].dtype);
  }

  void describe(pb::ValueInfoProto& info, const std::string& name, TensorId id) const {
    const plan::Tensor& tensor = job_[id];
    info.set_name(name);
    pb::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(data_type_of(tensor.dtype));
    pb::TensorShapeProto& shape = *type.mutable_shape();
    const bool fixed = !state_.fixed_batch.empty();
    for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
      pb::TensorShapeProto::Dimension& dimension = *shape.add_dim();
      // Values that are computed from reduced rows may have any extents.
      if (fixed || (axis != tensor.batch_axis && tensor.batch_axis != plan::kBatchReduced))
        dimension.set_dim_value(tensor.shape[axis]);
      else if (tensor.shape[axis] == rows_ && axis == tensor.batch_axis)
        dimension.set_dim_param(kBatchName);
    }
  }

  void write_ends() {
    for (const plan::Input& input : job_.inputs)
      if (needed_.contains(input.tensor))
        describe(*graph_.add_input(), names_.at(input.tensor), input.tensor);
    for (const Output& output : outputs_) {
      const std::string& name = names_.at(output.tensor);
      if (name != output.name) state_.graph.node("Identity", {name}, {output.name});
      describe(*graph_.add_output(), output.name, output.tensor);
    }
  }

  const plan::Job& job_;
  pb::GraphProto& graph_;
  ExportState state_;
  std::vector<Output> outputs_;
  std::set<TensorId> needed_;
  std::map<TensorId, std::string> names_;
  int64_t rows_ = 0;
};

}  // namespace

const std::vector<Rule>& all_rules() {
  static const auto kRules = [] {
    std::vector<Rule> all;
    for (const auto list :
         {arithmetic_rules(), attention_rules(), constant_rules(), function_rules(), grid_rules(),
          image_rules(), index_rules(), normalization_rules(), pad_rules(), product_rules(),
          random_rules(), recurrent_rules(), reduction_rules(), rotary_rules(), shape_rules(),
          window_rules()})
      all.insert(all.end(), list.begin(), list.end());
    return all;
  }();
  return kRules;
}

ExportedModel export_job(const plan::Job& job, const ReadVariable& read) {
  require_exportable(job);
  pb::ModelProto model;
  model.set_ir_version(pb::IR_VERSION);
  model.set_producer_name("flow");
  model.set_producer_version(FLOW_VERSION);
  pb::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  model.mutable_graph()->set_name(job.name);
  JobExport exported(job, *model.mutable_graph());
  exported.write(read);
  ExportedModel result{.bytes = {},
                       .nodes = static_cast<size_t>(model.graph().node_size()),
                       .initializers = static_cast<size_t>(model.graph().initializer_size()),
                       .batch = exported.fixed_batch(),
                       .fixed_by = exported.fixed_by()};
  if (model.ByteSizeLong() > uint64_t{std::numeric_limits<int32_t>::max()} ||
      !model.SerializeToString(&result.bytes))
    throw RequestError(fmt::format("the model of job `{}` needs more than the 2 GiB that ONNX "
                                   "allows",
                                   job.name),
                       "export a smaller model, or only the weights, as .safetensors");
  return result;
}

}  // namespace flow::onnx
