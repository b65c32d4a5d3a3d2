// Binds kernels to memory once; a launch is then a loop over them.
#include "runtime/cpu/backend/program.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/ceil_div.h"
#include "runtime/base/check.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/backend/onednn_status.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/exec/run/probes.h"
#include "runtime/exec/run/profile.h"

namespace flow::cpu {
namespace {

using exec::Pool;
using exec::TensorInfo;
using plan::TensorId;

size_t aligned(size_t bytes) { return round_up(bytes, 64); }

}  // namespace

AlignedBytes::AlignedBytes(size_t bytes, bool zero)
    : bytes_(
          static_cast<std::byte*>(std::aligned_alloc(64, std::max(aligned(bytes), size_t{64})))) {
  if (!bytes_) throw RunError(fmt::format("cannot allocate {} of memory", human_bytes(bytes)));
  if (zero) std::memset(bytes_.get(), 0, bytes);
}

CpuProgram::CpuProgram(const plan::Job& job, const exec::PrepareOptions& options,
                       std::span<const Layout> layouts, std::vector<BoundKernel> kernels,
                       exec::MemoryPlan memory, std::span<const exec::SharedVariable> shared,
                       int threads)
    : threads_(threads),
      workers_(threads),
      report_(std::move(memory.report)),
      layouts_(layouts.begin(), layouts.end()),
      input_stride_(report_.inputs) {
  for (size_t i = 0; i < job.tensors.size(); ++i)
    tensors_.push_back({job.tensors[i].dtype, job.tensors[i].shape, memory.tensors[i]});
  steps_.resize(kernels.size());
  plan_deliveries(job, options);
  const size_t input_slots = std::max<size_t>(1, options.input_slots);
  const size_t output_slots = std::max<size_t>(1, options.output_slots);
  report_.inputs = input_stride_ * input_slots;
  report_.outputs = output_stride_ * output_slots;
  variables_ = AlignedBytes(report_.variables, true);
  inputs_ = AlignedBytes(report_.inputs, true);
  outputs_ = AlignedBytes(report_.outputs, true);
  arena_ = AlignedBytes(report_.arena, false);
  faults_.resize(output_slots);
  for (const exec::SharedVariable& variable : shared)
    shared_.push_back(
        static_cast<const CpuProgram*>(variable.program)->address(variable.theirs, 0));
  for (const exec::TransferredTensor& transferred : options.transferred)
    transferred_.push_back(transferred.memory);
  segments_ = options.segments;
  if (segments_.empty()) segments_.push_back(steps_.size());
  if (options.profile) prepare_timing(job, kernels);
  bind(std::move(kernels), memory.workspaces);
}

void CpuProgram::plan_deliveries(const plan::Job& job, const exec::PrepareOptions& options) {
  const std::vector<TensorId>& deliverables = options.deliverables;
  std::vector<size_t> maker(job.tensors.size(), job.steps.size());
  for (size_t i = 0; i < job.steps.size(); ++i)
    for (TensorId id : job.steps[i].outputs)
      if (id.valid()) maker[id.index()] = i;
  std::vector<std::vector<size_t>> probes =
      exec::readers_of_probes(job, deliverables, options.transferred);
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].probe = job.steps[i].probe;
    steps_[i].wanted_by = std::move(probes[i]);
  }
  for (size_t i = 0; i < deliverables.size(); ++i) {
    const TensorId id = deliverables[i];
    if (!id.valid()) continue;
    const size_t step = maker[id.index()];
    (step < steps_.size() ? steps_[step].deliveries : early_).push_back({i, id, output_stride_});
    output_offsets_.emplace_back(id, output_stride_);
    output_stride_ += aligned(tensors_[id.index()].bytes());
  }
}

void CpuProgram::prepare_timing(const plan::Job& job, std::span<const BoundKernel> kernels) {
  timed_steps_.push_back({"inputs and variables", "deliver", ""});
  size_t segment = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    while (segments_[segment] <= i) ++segment;
    timed_steps_.push_back({job.steps[i].name, job.steps[i].op.name(),
                            kernels[i].actions.empty() ? "none: a view" : kernels[i].kernel,
                            segment});
  }
  times_.assign(faults_.size(), std::vector<int64_t>(timed_steps_.size() + 1));
}

std::byte* CpuProgram::address(TensorId tensor, size_t input_slot) const {
  const exec::Place& place = tensors_[tensor.index()].place;
  switch (place.pool) {
    case Pool::kVariables:
      return variables_.data() + place.offset;
    case Pool::kInputs:
      return inputs_.data() + input_slot * input_stride_ + place.offset;
    case Pool::kArena:
      return arena_.data() + place.offset;
    case Pool::kShared:
      return shared_[place.offset];
    case Pool::kTransferred:
      return transferred_[place.offset];
    case Pool::kNone:
      break;
  }
  FLOW_CHECK(false, "a tensor without memory is used");
}

std::vector<std::byte*> CpuProgram::bind(const std::vector<Operand>& operands,
                                         std::byte* workspace) const {
  std::vector<std::byte*> pointers;
  for (const Operand& operand : operands) {
    if (operand.kind == Operand::Kind::kTensor)
      pointers.push_back(address(operand.tensor, 0));
    else
      pointers.push_back(operand.kind == Operand::Kind::kWorkspace ? workspace + operand.offset
                                                                   : nullptr);
  }
  return pointers;
}

void CpuProgram::bind(std::vector<BoundKernel> kernels, const std::vector<size_t>& workspaces) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::byte* workspace = arena_.data() + workspaces[i];
    for (Action& action : kernels[i].actions) {
      BoundAction bound;
      bound.launch = std::move(action.launch);
      bound.inputs = bind(action.inputs, workspace);
      bound.outputs = bind(action.outputs, workspace);
      for (const std::vector<Operand>& operands : action.epilogue)
        bound.epilogue.push_back(bind(operands, workspace));
      for (const std::vector<std::byte*>& operands : bound.epilogue)
        bound.epilogue_spans.emplace_back(operands);
      bound.workspace = workspace + action.workspace;
      steps_[i].actions.push_back(std::move(bound));
    }
    collect_input_pointers(kernels[i], steps_[i]);
  }
}

void CpuProgram::collect_input_pointers(const BoundKernel& kernel, BoundStep& bound) {
  const auto collect = [this](const std::vector<Operand>& operands,
                              std::vector<std::byte*>& pointers) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].kind != Operand::Kind::kTensor) continue;
      const exec::Place& place = tensors_[operands[i].tensor.index()].place;
      if (place.pool == Pool::kInputs) input_pointers_.push_back({&pointers[i], place.offset});
    }
  };
  for (size_t i = 0; i < kernel.actions.size(); ++i) {
    const Action& action = kernel.actions[i];
    collect(action.inputs, bound.actions[i].inputs);
    collect(action.outputs, bound.actions[i].outputs);
    for (size_t fused = 0; fused < action.epilogue.size(); ++fused)
      collect(action.epilogue[fused], bound.actions[i].epilogue[fused]);
  }
}

void CpuProgram::write_variable(TensorId variable, const ArrayView& value) {
  exec::variable_of(tensors_, variable, value);
  std::copy_n(value.data, value.bytes(), address(variable, 0));
}

void CpuProgram::read_variable(TensorId variable, std::span<std::byte> into) const {
  exec::variable_of(tensors_, variable, into.size());
  std::copy_n(address(variable, 0), into.size(), into.data());
}

std::span<std::byte> CpuProgram::input(TensorId input, size_t slot) {
  const TensorInfo& tensor = tensors_[input.index()];
  FLOW_CHECK(tensor.place.pool == Pool::kInputs, "input {}", input.value);
  return {address(input, slot), tensor.bytes()};
}

void CpuProgram::launch(const exec::Call& call, size_t input_slot, size_t output_slot) {
  flush_denormals();
  const SingleThreadedLibraries single;
  const Workers::Use use(workers_);
  if (call.segment == 0) {
    for (const InputPointer& input : input_pointers_)
      *input.pointer = inputs_.data() + input_slot * input_stride_ + input.offset;
    faults_[output_slot].reset();
  }
  if (timed_steps_.empty())
    launch_steps<false>(call, input_slot, output_slot);
  else
    launch_steps<true>(call, input_slot, output_slot);
  throw_failure();
}

template <bool kTimed>
void CpuProgram::launch_steps(const exec::Call& call, size_t input_slot, size_t output_slot) {
  const size_t first = call.segment == 0 ? 0 : segments_[call.segment - 1];
  // Before the first step: the begin, and what is delivered early.
  [[maybe_unused]] int64_t* time =
      kTimed ? times_[output_slot].data() + (call.segment == 0 ? 0 : 2 + first) : nullptr;
  const auto stamp = [&](bool ran) {
    if constexpr (kTimed) *time = ran ? exec::Profile::now() : time[-1], ++time;
  };
  if (call.segment == 0) {
    stamp(true);
    deliver(early_, call, input_slot, output_slot);
    stamp(!early_.empty());
  }
  const CallState state{call.step, call.learning_rate, &faults_[output_slot]};
  for (const BoundStep& step : std::span(steps_).subspan(first, segments_[call.segment] - first)) {
    const auto wanted = [&call](size_t index) { return call.wanted[index] != 0; };
    if (step.probe && std::ranges::none_of(step.wanted_by, wanted)) {
      stamp(false);
      continue;
    }
    for (const BoundAction& action : step.actions)
      action.launch({action.inputs, action.outputs, action.epilogue_spans, action.workspace},
                    state);
    deliver(step.deliveries, call, input_slot, output_slot);
    stamp(!step.actions.empty() || !step.deliveries.empty());
  }
}

void CpuProgram::deliver(const std::vector<CopyOut>& deliveries, const exec::Call& call,
                         size_t input_slot, size_t output_slot) const {
  for (const CopyOut& delivery : deliveries) {
    if (!call.wanted[delivery.index]) continue;
    const TensorInfo& tensor = tensors_[delivery.tensor.index()];
    reorder(threads_, size_of(tensor.dtype), tensor.shape, layouts_[delivery.tensor.index()],
            address(delivery.tensor, input_slot), Layout::kPlain,
            outputs_.data() + output_slot * output_stride_ + delivery.offset);
  }
}

std::span<const std::byte> CpuProgram::delivered(TensorId tensor, size_t output_slot) const {
  const auto found =
      std::ranges::find(output_offsets_, tensor, &std::pair<TensorId, size_t>::first);
  FLOW_CHECK(found != output_offsets_.end(), "tensor {} is not deliverable", tensor.value);
  const TensorInfo& info = tensors_[tensor.index()];
  return {outputs_.data() + output_slot * output_stride_ + found->second, info.bytes()};
}

}  // namespace flow::cpu
