// Writes and reads the plan as text, and determines the part of a job that must be unchanged when a
// run is resumed.
#include "runtime/plan/serialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/structs.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::plan {

namespace {

using Remarks = JsonWriter::Remarks;

constexpr const char* kRecompile = "recompile the job file with flowc build";

/// Refuses plans of other versions before the rest of the text is read, because all of it may
/// differ.
void check_version(const Json& json, const std::string& path) {
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (!json.is_object() || version == json.end() || !version->is_number_integer())
    throw RequestError(fmt::format("{}: not a plan: no `version`", path),
                       "build a plan with flowc build");
  if (*version != kVersion)
    throw RequestError(fmt::format("{}: unsupported plan version {}; expected {}", path,
                                   version->dump(), kVersion),
                       kRecompile);
}

}  // namespace

std::string hash(const Plan& plan) {
  return digest(JsonWriter(Remarks::kLeftOut).write(Document{{}, {}, plan}));
}

std::string to_json(const Plan& plan) {
  return with_checksum(
      JsonWriter(Remarks::kKept).write(Document{std::string(kNoChecksum), hash(plan), plan}));
}

Plan from_json(std::string_view text, const std::string& path) {
  const Json json = parse_json(text, path);
  check_version(json, path);
  if (!has_checksum(text))
    throw RequestError(fmt::format("{}: the plan was modified: its checksum does not match", path),
                       fmt::format("edit the job file, then {}", kRecompile));
  Document document;
  JsonReader(json, path).read(document);
  check(document.plan, path);
  if (const std::string found = hash(document.plan); found != document.hash)
    throw RequestError(
        fmt::format("{}: the hash of the plan is {}; the file says {}", path, found, document.hash),
        kRecompile);
  return std::move(document.plan);
}

namespace {

template <typename Visit>
void visit_ids(ReturnValue& value, const Visit& visit) {
  visit(value.tensor);
  for (ReturnValue& item : value.items) visit_ids(item, visit);
}

/// Visits the ids of all tensors that are read or that are inputs or outputs of the job, except
/// those that only hooks read.
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

/// Removes the probes. The steps of the shards, and the steps before and in a loop, remain the
/// first ones; their ends are adjusted.
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

/// Removes everything that depends on hooks: probes, second results that only hooks read,
/// lifetimes, permissions to work in place, and how the parts from shards are combined.
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
    tensor.alias = TensorId();  // the step of an updated variable already defines it
    tensor.combine.reset();     // the steps define it, and whether they read the whole tensor
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
  for (Input& input : bare.inputs) input.range.reset();  // the range is only checked
  bare.run = {};
  // The order of an epoch determines which rows a step sees.
  bare.run.shuffle = job.run.shuffle;
  bare.run.shuffle_buffer = job.run.shuffle_buffer;
  bare.run.sampling = job.run.sampling;
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
