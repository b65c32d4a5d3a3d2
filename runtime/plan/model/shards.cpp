// Counts and lists the devices of ranges and of jobs. Determines how tensors are laid out on
// shards, how often steps run, and the shapes for the whole batch.
#include "runtime/plan/model/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/model/enum_names.h"

namespace flow::plan {

std::vector<DeviceId> devices_of(std::span<const DeviceRange> ids) {
  std::vector<DeviceId> devices;
  for (const auto& [machine, first, last] : ids)
    for (int64_t device = first; device <= last; ++device) devices.push_back({machine, device});
  return devices;
}

std::optional<DeviceId> device_named_twice(std::span<const DeviceRange> ids) {
  std::vector<DeviceId> devices = devices_of(ids);
  std::ranges::sort(devices);
  const auto twice = std::ranges::adjacent_find(devices);
  if (twice == devices.end()) return {};
  return *twice;
}

size_t machines_of(std::span<const DeviceRange> ids) {
  std::set<int64_t> machines;
  for (const DeviceRange& range : ids) machines.insert(range.machine);
  return machines.size();
}

std::string ids_text(std::span<const DeviceRange> ids) {
  std::string text;
  for (const auto& [machine, first, last] : ids)
    text += fmt::format("{}\"{}:{}{}\"", text.empty() ? "" : ", ", machine, first,
                        last == first ? "" : fmt::format("-{}", last));
  return text;
}

std::string_view name_of(DeviceKind device) { return enum_name(device); }

bool has_two_devices(const Job& job) {
  const auto is_elsewhere = [](const auto& one) { return one.device.has_value(); };
  return std::ranges::any_of(job.steps, is_elsewhere) ||
         std::ranges::any_of(job.tensors, is_elsewhere);
}

namespace {

using LayoutKind = ShardLayout::Kind;
using Fault = LayoutFault::Kind;

/// Returns the layout of a result if no operand is partial. `rows` is true if the result depends on
/// the rows of the shard.
std::variant<ShardLayout, LayoutFault> layout_from_rows(const ops::Result& result, bool rows) {
  if (result.batch_axis >= 0) return ShardLayout{LayoutKind::kSplit};
  if (result.combine != ops::Combine::kNone)
    return ShardLayout{LayoutKind::kPartial, result.combine};
  if (result.batch_axis == ops::kNoBatch && !rows) return ShardLayout{LayoutKind::kBroadcast};
  return LayoutFault{Fault::kMixesRows};
}

/// Checks that the op is linear in operand `part`, which is partial, and returns the fault if it is
/// not. All operands are partial or broadcast.
std::optional<LayoutFault> find_nonlinear(const ops::OpSpec& op,
                                          std::span<const ShardLayout> operands, size_t part) {
  const ShardLayout& layout = operands[part];
  const bool adds = layout.combine == ops::Combine::kSum || layout.combine == ops::Combine::kMean;
  const bool linear = std::ranges::find(op.linear, part) != op.linear.end();
  const bool alone = std::ranges::count(operands, LayoutKind::kPartial, &ShardLayout::kind) == 1;
  const auto other =
      std::ranges::find_if_not(operands, [&](const ShardLayout& one) { return one == layout; });
  if (!adds && !op.moves_elements) return LayoutFault{Fault::kReadsPart, part};
  if ((linear && alone) || (op.linear_in_all && other == operands.end())) return {};
  if (!op.linear_in_all) return LayoutFault{Fault::kReadsPart, part};
  return LayoutFault{
      other->kind == LayoutKind::kPartial ? Fault::kPartsDiffer : Fault::kPartialAndBroadcast,
      static_cast<size_t>(other - operands.begin())};
}

}  // namespace

std::variant<ShardLayout, LayoutFault> layout_of_result(const ops::OpSpec& op,
                                                        std::span<const ShardLayout> operands,
                                                        const ops::Result& result) {
  std::optional<size_t> part;
  bool rows = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const LayoutKind kind = operands[i].kind;
    if (kind == LayoutKind::kWhole) return LayoutFault{Fault::kReadsWhole, i};
    if (kind == LayoutKind::kOwn) return LayoutFault{Fault::kReadsOwn, i};
    if (kind == LayoutKind::kPartial && !op.operand(i).per_shard)
      part = part.value_or(i);
    else
      rows |= kind != LayoutKind::kBroadcast;
  }
  if (!part) return layout_from_rows(result, rows);
  if (rows) return LayoutFault{Fault::kReadsPart, *part};
  if (const auto fault = find_nonlinear(op, operands, *part)) return *fault;
  return operands[*part];
}

ShardLayout layout_per_shard(int batch_axis, std::optional<ops::Combine> combine) {
  if (batch_axis >= 0) return {LayoutKind::kSplit};
  if (combine) return {LayoutKind::kPartial, *combine};
  return {LayoutKind::kOwn};
}

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

/// Replaces the attributes that contain an extent of a shard's tensor by the extent of the whole
/// tensor.
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

Job unsharded_job(const Job& job) {
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
