// Jobs whose batch is cut into shards: how often steps run, and shapes of the whole batch.
#include "runtime/plan/model/shards.h"

#include <utility>
#include <variant>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/model/layouts.h"

namespace flow::plan {

int64_t shards_of(const Job& job) { return job.sharding ? job.sharding->count : 1; }

int64_t runs_of(const Job& job, StepId step) {
  return job.sharding && step < job.sharding->steps ? job.sharding->count : 1;
}

Shape whole_shape(const Job& job, const Tensor& tensor) {
  Shape shape = tensor.shape;
  if (tensor.batch_axis >= 0) shape[tensor.batch_axis] *= shards_of(job);
  return shape;
}

std::vector<bool> own_of_shards(const Job& job) {
  std::vector<bool> own(job.tensors.size());
  for (const Step& step : job.steps)
    for (const TensorId id : step.outputs)
      if (step.per_shard && id.valid())
        own[id.index()] =
            layout_per_shard(job[id].batch_axis, job[id].combine).kind == ShardLayout::Kind::kOwn;
  return own;
}

namespace {

/// Attributes that hold extents of a tensor get those of the whole one.
void restore_attributes(const Job& job, Step& step) {
  for (const ops::PlanAttribute& attribute : step.op->plan_attributes) {
    if (!attribute.of_result && !attribute.of_operand) continue;
    const Tensor& tensor = job[attribute.of_result ? step.outputs[0] : step.inputs[0]];
    if (tensor.batch_axis < 0) continue;
    const auto axis = static_cast<size_t>(tensor.batch_axis);
    const auto* part = std::get_if<std::vector<int64_t>>(step.attributes.find(attribute.name));
    if (!part || axis >= part->size()) continue;
    std::vector<int64_t> extents = *part;
    extents[axis] = whole_shape(job, tensor)[tensor.batch_axis];
    step.attributes.set(attribute.name, std::move(extents));
  }
}

}  // namespace

Job whole_job(const Job& job) {
  Job whole = job;
  if (!job.sharding) return whole;
  for (Step& step : whole.steps) restore_attributes(job, step);
  for (Tensor& tensor : whole.tensors) {
    tensor.shape = whole_shape(job, tensor);
    tensor.combine.reset();
  }
  whole.sharding.reset();
  return whole;
}

}  // namespace flow::plan
