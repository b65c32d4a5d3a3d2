// The memory of a program.
#include "runtime/cuda/program/program_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/base/check.h"

namespace flow::cuda {
namespace {

DeviceBytes allocate(Driver& driver, size_t bytes) {
  return {driver, driver.allocate(std::max(bytes, kAlignment))};
}

/// A zeroed region of `slots` slots.
PinnedBytes allocate_pinned(Driver& driver, size_t bytes, size_t slots) {
  PinnedBytes memory(driver, driver.allocate_pinned(bytes * slots));
  std::memset(memory.get(), 0, bytes * slots);
  return memory;
}

}  // namespace

InputLayout::InputLayout(const plan::Job& job, std::span<const plan::TensorId> kept)
    : offsets(job.tensors.size()), rows(aligned(sizeof(CallBlock))), bytes(rows) {
  const auto is_kept = [&](plan::TensorId id) { return std::ranges::find(kept, id) != kept.end(); };
  const auto place = [&](bool device_makes) {
    for (size_t i = 0; i < job.tensors.size(); ++i) {
      if (job.tensors[i].role != plan::Role::kInput) continue;
      if (is_kept(plan::TensorId{i}) != device_makes) continue;
      offsets[i] = bytes;
      bytes += aligned(exec::bytes_of(job.tensors[i]));
    }
  };
  if (!kept.empty()) row_count = job[kept.front()].shape[0];
  bytes += aligned(static_cast<size_t>(row_count) * sizeof(int64_t));
  place(false);
  copied = bytes;
  place(true);
}

OutputLayout::OutputLayout(const plan::Job& job, std::span<const plan::TensorId> deliverables)
    : bytes(aligned(sizeof(FaultBlock))) {
  for (plan::TensorId id : deliverables) {
    offsets.push_back(bytes);
    if (id.valid()) bytes += aligned(exec::bytes_of(job[id]));
  }
}

size_t ProgramMemory::device_bytes(const Sizes& sizes, const InputLayout& inputs) {
  return sizes.variables + sizes.arena + inputs.bytes;
}

size_t ProgramMemory::pinned_bytes(const Sizes& sizes, const InputLayout& inputs,
                                   const OutputLayout& outputs) {
  return sizes.input_slots * inputs.copied + sizes.output_slots * outputs.bytes;
}

ProgramMemory::ProgramMemory(Driver& driver, Stream stream, const Sizes& sizes, InputLayout inputs,
                             OutputLayout outputs, std::vector<std::byte*> variable_sources,
                             std::vector<std::byte*> transferred)
    : input_layout_(std::move(inputs)),
      output_layout_(std::move(outputs)),
      variables_(allocate(driver, sizes.variables)),
      arena_(allocate(driver, sizes.arena)),
      inputs_(allocate(driver, input_layout_.bytes)),
      host_inputs_(allocate_pinned(driver, input_layout_.copied, sizes.input_slots)),
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
  return host_inputs_.get() + slot * input_layout_.copied;
}

std::span<int64_t> ProgramMemory::rows(size_t slot) const {
  auto* first = reinterpret_cast<int64_t*>(host_inputs(slot) + input_layout_.rows);
  return {first, static_cast<size_t>(input_layout_.row_count)};
}

std::byte* ProgramMemory::host_outputs(size_t slot) const {
  return host_outputs_.get() + slot * output_layout_.bytes;
}

}  // namespace flow::cuda
