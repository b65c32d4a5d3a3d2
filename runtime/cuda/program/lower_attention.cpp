// A pass from plan to plan that adds casts around attention.
#include "runtime/cuda/program/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/cuda_library.h"
#include "ops/core/known.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

class AttentionLowering {
 public:
  AttentionLowering(const plan::Job& job, std::span<const TensorId> visible, size_t most_workspace,
                    DType low_precision, Libraries& libraries, Versions* versions)
      : job_(job),
        most_workspace_(most_workspace),
        dtype_(low_precision),
        libraries_(libraries),
        versions_(versions),
        visible_(job.tensors.size()),
        lowered_(job.steps.size()) {
    for (const TensorId id : visible)
      if (id.valid()) visible_[id.index()] = true;
  }

  plan::Job lower() {
    choose();
    rewrite_steps(job_, [&](plan::Step step, size_t i) { add(std::move(step), lowered_[i]); });
    replace_rounded();
    remove_unread_casts();
    plan::assign_lifetimes(job_);
    return std::move(job_);
  }

 private:
  /// Returns true if the library supports all gradients that run in every call for the step that
  /// makes `log_sums`.
  bool gradients_fit(TensorId log_sums) {
    if (!log_sums.valid()) return true;
    return std::ranges::all_of(job_.steps, [&](const plan::Step& step) {
      return step.probe || step.op != ops::kAttentionGrad || step.inputs[5] != log_sums ||
             refusal_of(step).empty();
    });
  }

  /// Chooses the steps that are lowered. Steps that run once in a sharded job read sums over
  /// shards, which are not rounded, and are therefore not lowered.
  void choose() {
    const size_t end = job_.sharding ? job_.sharding->steps.index() : job_.steps.size();
    // Indexed by tensor; true if a lowered step makes it.
    std::vector<bool> log_sums_of(job_.tensors.size());
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      plan::Step& step = job_.steps[i];
      if (step.op != ops::kAttention && step.op != ops::kAttentionGrad) continue;
      std::string refusal = i < end ? refusal_of(step) : "it follows sums over shards";
      const bool forward = step.op == ops::kAttention;
      const TensorId log_sums = forward ? second_result(step) : step.inputs[5];
      if (refusal.empty() && forward && !gradients_fit(log_sums))
        refusal = "the gradients are not supported";
      if (refusal.empty() && !forward && !log_sums_of[log_sums.index()])
        refusal = "the forward pass is not supported";
      if (!refusal.empty()) {
        set_refusal(step, refusal);
        continue;
      }
      lowered_[i] = true;
      if (forward && log_sums.valid()) log_sums_of[log_sums.index()] = true;
    }
  }

  static TensorId second_result(const plan::Step& step) {
    return step.outputs.size() > 1 ? step.outputs[1] : TensorId();
  }

  /// Returns the reason why the library does not compute the step in 16 bits, or an empty string if
  /// it does. Equal steps are requested from the library only once.
  std::string refusal_of(const plan::Step& step) {
    std::vector<AttentionOperand> operands;
    for (const TensorId id : step.inputs) operands.push_back({job_[id].dtype, job_[id].shape});
    Expected<AttentionSpec> asked =
        attention_spec(step, operands, second_result(step).valid(), dtype_, math_mode_of(job_));
    if (!asked) return asked.error().what();
    AttentionSpec spec = std::move(asked).value();
    spec.most_workspace = most_workspace_;
    const std::string key = fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(spec.pass), spec.query.str(),
        spec.key.str(), spec.value.str(), spec.scale, spec.causal, spec.bottom_right, spec.window,
        spec.bias ? spec.bias->str() : "", spec.lengths, spec.log_sums);
    const auto known = refusals_.find(key);
    if (known != refusals_.end()) return known->second;
    const Expected<AttentionKernel> kernel = libraries_.find(spec);
    return refusals_[key] = kernel ? "" : kernel.error().what();
  }

  void add(plan::Step step, bool lowered) {
    if (lowered) return add_lowered(std::move(step));
    if (step.op == ops::kCast && !step.probe && note_cast(step)) return;
    job_.steps.push_back(std::move(step));
  }

  /// Records which tensors exist in 16 bits. Returns true if the step makes one that already exists
  /// and that its readers can read instead.
  bool note_cast(const plan::Step& step) {
    const TensorId from = step.inputs[0], to = step.outputs[0];
    if (job_[to].dtype != dtype_) {
      if (job_[from].dtype == dtype_) rounded_[to.index()] = from;
      return false;
    }
    const auto [known, added] = rounded_.try_emplace(from.index(), to);
    if (added || !widened_.contains(from.index())) return false;
    const plan::Tensor &made = job_[to], &there = job_[known->second];
    const bool joined = made.combine || job_[from].combine;  // combined over shards, unlike `there`
    if (visible_[to.index()] || joined || made.batch_axis != there.batch_axis) return false;
    replaced_[to.index()] = known->second;
    return true;
  }

  void add_lowered(plan::Step step) {
    const bool forward = step.op == ops::kAttention;
    const plan::Step origin = step;
    const size_t log_sums = forward ? step.inputs.size() : 5;  // this operand stays unchanged
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (i != log_sums && is_float(job_[step.inputs[i]].dtype))
        step.inputs[i] = rounded(origin, i, step.inputs[i]);
    std::vector<plan::Step> casts;
    const size_t results = forward ? 1 : 3;
    for (size_t i = 0; i < results; ++i) {
      const TensorId result = step.outputs[i];
      if (!result.valid()) continue;
      job_.tensors[result.index()].alias = TensorId();
      step.outputs[i] = add_tensor(result, name_of_cast(origin, step.op->results[i].name));
      if (versions_) versions_->push_back({step.outputs[i], result});
      casts.push_back(cast(origin,
                           fmt::format("{}:{}:{}", origin.name, step.op->results[i].name,
                                       name_of(job_[result].dtype)),
                           step.outputs[i], result));
      if (origin.probe) continue;
      rounded_[result.index()] = step.outputs[i];
      widened_.emplace(result.index(), casts.back().name);
    }
    job_.steps.push_back(std::move(step));
    std::ranges::move(casts, std::back_inserter(job_.steps));
  }

  std::string name_of_cast(const plan::Step& step, std::string_view operand) const {
    return fmt::format("{}:{}:{}", step.name, operand, name_of(dtype_));
  }

  /// Returns the operand in 16 bits.
  TensorId rounded(const plan::Step& reader, size_t operand, TensorId id) {
    if (const auto known = rounded_.find(id.index()); known != rounded_.end()) return known->second;
    const std::string name = name_of_cast(reader, reader.op->operand(operand, job_[id].dtype).name);
    const TensorId made = add_tensor(id, name);
    job_.steps.push_back(cast(reader, name, id, made));
    if (!reader.probe) rounded_[id.index()] = made;
    return made;
  }

  TensorId add_tensor(TensorId like, std::string name) {
    plan::Tensor tensor = job_[like];
    tensor.name = std::move(name);
    tensor.dtype = dtype_;
    visible_.push_back(false);
    return add_result(job_, std::move(tensor));
  }

  plan::Step cast(const plan::Step& origin, std::string name, TensorId from, TensorId to) const {
    plan::Step step = make_step(origin, ops::kCast->name, std::move(name), from, to);
    step.attributes.set("dtype", job_[to].dtype);
    step.probe = origin.probe;
    step.per_shard = origin.per_shard;
    return step;
  }

  void replace_rounded() {
    const auto follow = [&](TensorId& id) {
      if (!id.valid()) return;
      if (const auto by = replaced_.find(id.index()); by != replaced_.end()) id = by->second;
    };
    for (plan::Step& step : job_.steps) {
      std::ranges::for_each(step.inputs, follow);
      for (plan::EpilogueOp& fused : step.epilogue) std::ranges::for_each(fused.operands, follow);
    }
    for (plan::Tensor& tensor : job_.tensors) follow(tensor.alias);
  }

  /// Removes the casts back to the plan's tensors that no step reads.
  void remove_unread_casts() {
    std::vector<bool> read = visible_;
    for (const plan::Step& step : job_.steps)
      plan::visit_operands(step, [&](TensorId id) { read[id.index()] = true; });
    rewrite_steps(job_, [&](plan::Step step, size_t) {
      const auto widened = widened_.find(step.outputs[0].index());
      const bool widens = widened != widened_.end() && widened->second == step.name;
      if (!widens || read[widened->first]) job_.steps.push_back(std::move(step));
    });
  }

  plan::Job job_;
  const size_t most_workspace_;
  const DType dtype_;
  Libraries& libraries_;
  Versions* const versions_;                     // may be null
  std::vector<bool> visible_;                    // indexed by tensor
  std::vector<bool> lowered_;                    // indexed by step
  std::map<std::string, std::string> refusals_;  // indexed by the request
  std::map<size_t, TensorId> rounded_;           // indexed by tensor: the same tensor in 16 bits
  // The name of the cast, indexed by a tensor that the cast makes from 16 bits.
  std::map<size_t, std::string> widened_;
  std::map<size_t, TensorId> replaced_;  // indexed by tensor: its replacement
};

}  // namespace

plan::Job lower_attention(const plan::Job& job, std::span<const TensorId> visible,
                          size_t most_workspace, Libraries& libraries, Versions* versions) {
  const std::optional<DType> low_precision = plan::low_precision_of(job.precision);
  if (!low_precision) return job;
  return AttentionLowering(job, visible, most_workspace, *low_precision, libraries, versions)
      .lower();
}

}  // namespace flow::cuda
