// Lays out and allocates the memory of a program.
#include "runtime/cuda/program/program_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/base/error.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {

using plan::TensorId;

namespace {

DeviceBytes allocate(Driver& driver, size_t bytes) {
  return {driver, driver.allocate(std::max(bytes, kAlignment))};
}

/// Allocates a zeroed region of `slots` slots.
PinnedBytes allocate_pinned(Driver& driver, size_t bytes, size_t slots) {
  PinnedBytes memory(driver, driver.allocate_pinned(bytes * slots));
  std::memset(memory.get(), 0, bytes * slots);
  return memory;
}

}  // namespace

InputLayout::InputLayout(const plan::Job& job, std::span<const TensorId> kept)
    : offsets(job.tensors.size()),
      host_offsets(job.tensors.size()),
      shards(static_cast<size_t>(plan::shards_of(job))),
      bytes(aligned(sizeof(CallBlock))),
      host_bytes(aligned(sizeof(CallBlock) * shards)) {
  const std::vector<bool> by_shards = tensors_of_shards(job);
  std::vector<TensorId> whole_inputs, cut_inputs;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    const TensorId id(i);
    if (job[id].role != plan::Role::kInput || std::ranges::find(kept, id) != kept.end()) continue;
    (by_shards[i] ? cut_inputs : whole_inputs).push_back(id);
  }
  if (shards > 1) {
    of_shards.push_back({0, 0, sizeof(CallBlock), sizeof(CallBlock)});
    whole.to = bytes, whole.from = host_bytes;
  }
  rows = bytes, host_rows = host_bytes;
  if (!kept.empty()) row_count = plan::whole_shape(job, job[kept.front()])[0];
  const size_t row_bytes = aligned(static_cast<size_t>(row_count) * sizeof(int64_t));
  bytes += row_bytes, host_bytes += row_bytes;
  for (const TensorId id : whole_inputs) place(job, id);
  whole.bytes = bytes - whole.to;
  for (const TensorId id : cut_inputs) {
    place(job, id);
    const size_t of_shard = exec::bytes_of(job[id]);
    of_shards.push_back({offsets[id.index()], host_offsets[id.index()], of_shard, of_shard});
  }
  for (const TensorId id : kept) place_on_device(job, id);
}

void InputLayout::place(const plan::Job& job, TensorId input) {
  host_offsets[input.index()] = host_bytes;
  host_bytes += aligned(exec::whole_bytes_of(job, job[input]));
  place_on_device(job, input);
}

void InputLayout::place_on_device(const plan::Job& job, TensorId input) {
  offsets[input.index()] = bytes;
  bytes += aligned(exec::bytes_of(job[input]));
}

OutputLayout::OutputLayout(const plan::Job& job, const exec::PrepareOptions& options, size_t taken)
    : fingerprint_count(taken), bytes(aligned(sizeof(FaultBlock))) {
  const std::vector<bool> by_shards = tensors_of_shards(job);
  for (size_t i = 0; i < options.deliverables.size(); ++i) {
    const TensorId id = options.deliverables[i];
    Output& output = outputs.emplace_back(Output{bytes});
    if (!id.valid()) continue;
    bytes += aligned(exec::whole_bytes_of(job, job[id]));
    const bool in_parts = i < options.in_parts.size() && options.in_parts[i] != 0;
    // The rows of a rank are contiguous in the whole tensor only along the first axis.
    output.spread = options.ranks && by_shards[id.index()] && job[id].batch_axis > 0;
    if (!output.spread && (!in_parts || !by_shards[id.index()])) continue;
    output.parts = bytes;
    output.part_bytes = exec::bytes_of(job[id]);
    bytes += aligned(output.part_bytes * static_cast<size_t>(plan::shards_of(job)));
  }
  fingerprints = bytes;
  bytes += aligned(taken * sizeof(Fingerprint));
}

std::vector<bool> tensors_of_shards(const plan::Job& job) {
  std::vector<bool> found(job.tensors.size());
  if (!job.sharding) return found;
  for (size_t i = 0; i < job.tensors.size(); ++i)
    found[i] = job.tensors[i].role == plan::Role::kInput && job.tensors[i].batch_axis >= 0;
  for (size_t i = 0; i < job.sharding->steps.index(); ++i)
    for (const TensorId id : job.steps[i].outputs)
      if (id.valid()) found[id.index()] = true;
  return found;
}

size_t ProgramMemory::device_bytes(const Sizes& sizes, const InputLayout& inputs) {
  return sizes.variables + sizes.arena + inputs.bytes;
}

size_t ProgramMemory::pinned_bytes(const Sizes& sizes, const InputLayout& inputs,
                                   const OutputLayout& outputs) {
  return sizes.input_slots * inputs.host_bytes + sizes.output_slots * outputs.bytes;
}

ProgramMemory::ProgramMemory(Driver& driver, Stream stream, const Sizes& sizes, InputLayout inputs,
                             OutputLayout outputs, std::vector<std::byte*> variable_sources,
                             std::vector<std::byte*> transferred)
    : input_layout_(std::move(inputs)),
      output_layout_(std::move(outputs)),
      variables_(allocate(driver, sizes.variables)),
      arena_(allocate(driver, sizes.arena)),
      inputs_(allocate(driver, input_layout_.bytes)),
      host_inputs_(allocate_pinned(driver, input_layout_.host_bytes, sizes.input_slots)),
      host_outputs_(allocate_pinned(driver, output_layout_.bytes, sizes.output_slots)),
      shared_(std::move(variable_sources)),
      transferred_(std::move(transferred)) {
  if (sizes.variables > 0) driver.clear(variables_.get(), sizes.variables, stream);
}

std::byte* ProgramMemory::address(const exec::Place& place) const {
  switch (place.pool) {
    case exec::Pool::kVariables:
      return variables_.get() + place.offset;
    case exec::Pool::kInputs:
      return inputs_.get() + place.offset;
    case exec::Pool::kArena:
      return arena_.get() + place.offset;
    case exec::Pool::kShared:
      return shared_[place.offset];
    case exec::Pool::kTransferred:
      return transferred_[place.offset];
    case exec::Pool::kNone:
      break;
  }
  FLOW_CHECK(false, "a tensor without memory is used");
}

std::byte* ProgramMemory::host_inputs(size_t slot) const {
  return host_inputs_.get() + slot * input_layout_.host_bytes;
}

std::span<int64_t> ProgramMemory::rows(size_t slot) const {
  auto* first = reinterpret_cast<int64_t*>(host_inputs(slot) + input_layout_.host_rows);
  return {first, static_cast<size_t>(input_layout_.row_count)};
}

std::byte* ProgramMemory::host_outputs(size_t slot) const {
  return host_outputs_.get() + slot * output_layout_.bytes;
}

}  // namespace flow::cuda
