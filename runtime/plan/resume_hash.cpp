// What of a job must be the same for a run to go on where another stopped.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "runtime/base/digest.h"
#include "runtime/plan/json/json_writer.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/plan/serialize.h"

namespace flow::plan {
namespace {

template <typename Visit>
void visit_ids(ReturnValue& value, const Visit& visit) {
  visit(value.tensor);
  for (ReturnValue& item : value.items) visit_ids(item, visit);
}

/// Visits the ids of tensors that are read, or hold what goes in or out. Hooks left aside.
template <typename Visit>
void visit_read_ids(Job& job, const Visit& visit) {
  for (Step& step : job.steps) {
    for (TensorId& id : step.inputs) visit(id);
    for (EpilogueOp& fused : step.epilogue)
      for (TensorId& id : fused.operands) visit(id);
  }
  for (Variable& variable : job.variables) visit(variable.tensor);
  for (Input& input : job.inputs) visit(input.tensor);
  if (job.returns) visit_ids(job.returns->value, visit);
  if (job.loop) {
    visit(job.loop->until);
    for (TensorId& id : job.loop->states) visit(id);
  }
  if (job.optimizer) visit_tensors(*job.optimizer, visit);
}

/// The steps of shards, and of the parts of a loop, stay the first ones.
void erase_probes(Job& job) {
  const auto is_probe = [](const Step& step) { return step.probe; };
  const auto leave_out = [&](StepId& end) {
    const auto steps = std::span(job.steps).first(end.index());
    end = StepId(steps.size() - static_cast<size_t>(std::ranges::count_if(steps, is_probe)));
  };
  if (job.sharding) leave_out(job.sharding->steps);
  if (job.loop) {
    leave_out(job.loop->first);
    leave_out(job.loop->end);
  }
  std::erase_if(job.steps, is_probe);
}

/// Leaves out what comes and goes with hooks: probes, second results that only hooks read,
/// lifetimes, permissions to work in place, and how parts of shards are combined.
void leave_out_watched(Job& job) {
  erase_probes(job);
  std::vector<bool> kept(job.tensors.size());
  const auto keep = [&kept](TensorId id) {
    if (id.valid()) kept[id.index()] = true;
  };
  visit_read_ids(job, keep);
  for (const Step& step : job.steps) keep(step.outputs.empty() ? TensorId() : step.outputs[0]);
  for (Tensor& tensor : job.tensors) {
    tensor.first = tensor.last = StepId();
    tensor.alias = TensorId();  // of an updated variable: its step says so
    tensor.combine.reset();     // the steps say how, and where they read the whole
  }

  std::vector<TensorId> renumbered(job.tensors.size());
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    if (!kept[i]) continue;
    renumbered[i] = TensorId(tensors.size());
    tensors.push_back(std::move(job.tensors[i]));
  }
  job.tensors = std::move(tensors);
  const auto renumber = [&renumbered](TensorId& id) {
    if (id.valid()) id = renumbered[id.index()];
  };
  visit_read_ids(job, renumber);
  for (Step& step : job.steps)
    for (TensorId& id : step.outputs) renumber(id);
}

}  // namespace

Job resumed_part(const Job& job) {
  Job bare = job;
  bare.hooks.clear();
  bare.ids.clear();
  if (bare.returns) bare.returns->sinks.clear();
  for (Input& input : bare.inputs) input.range.reset();  // it checks, and changes nothing
  bare.run = {};
  bare.run.shuffle = job.run.shuffle;  // it decides which rows a step sees
  leave_out_watched(bare);
  return bare;
}

std::string resume_hash(const Job& job) {
  return digest(JsonWriter(JsonWriter::Remarks::kLeftOut).write(resumed_part(job)));
}

std::string resume_hash(const Plan& plan, const Job& job) {
  std::string text = resume_hash(job);
  if (job.run.also.empty()) return text;
  const std::vector<const Job*> called = sub_jobs_of(plan, job);
  for (size_t i = 0; i < called.size(); ++i) {
    const SubJob& also = job.run.also[i];
    text += fmt::format(" {} {} {} {} {}", also.job, also.every_steps, also.every_epochs,
                        resume_hash(*called[i]), called[i]->run.steps.value_or(1));
    if (also.averaged) text += " ema";
  }
  return digest(text);
}

}  // namespace flow::plan
