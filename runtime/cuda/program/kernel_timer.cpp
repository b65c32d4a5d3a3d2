// Trials of kernels.
#include "runtime/cuda/program/kernel_timer.h"

#include <algorithm>
#include <new>

#include "runtime/base/array.h"
#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

/// A step's operands, as its launch finds them.
class TrialBuffers {
 public:
  TrialBuffers(const Request& request, size_t workspace, Driver& driver, Stream stream)
      : memory_(driver, stream, parts_of(request), workspace) {
    size_t next = 0;
    for (size_t i = 0; i < request.inputs.size(); ++i) inputs_.push_back(memory_.part(next++));
    for (size_t i = 0; i < request.outputs.size(); ++i) outputs_.push_back(memory_.part(next++));
    for (const auto& operands : request.epilogue_operands) {
      operands_.emplace_back();
      for (size_t i = 0; i < operands.size(); ++i) operands_.back().push_back(memory_.part(next++));
    }
    for (const auto& operands : operands_) epilogue_operands_.emplace_back(operands);
  }

  Buffers buffers() const { return {inputs_, outputs_, epilogue_operands_, memory_.workspace()}; }

 private:
  static std::vector<TrialMemory::Part> parts_of(const Request& request) {
    std::vector<TrialMemory::Part> parts;
    const auto add = [&](const std::vector<TensorDesc>& tensors) {
      for (const TensorDesc& tensor : tensors)
        parts.push_back({tensor.dtype, tensor.used ? bytes_of(tensor.shape, tensor.dtype) : 0});
    };
    add(request.inputs);
    add(request.outputs);
    std::ranges::for_each(request.epilogue_operands, add);
    return parts;
  }

  TrialMemory memory_;
  std::vector<std::byte*> inputs_, outputs_;
  std::vector<std::vector<std::byte*>> operands_;
  std::vector<std::span<std::byte* const>> epilogue_operands_;
};

}  // namespace

KernelTimer::KernelTimer(Driver& driver, const Choices& choices)
    : driver_(driver), choices_(choices), stopwatch_(driver) {}

size_t KernelTimer::fastest(const std::string& key, const Request& request,
                            std::span<const Kernel> kernels) {
  if (const auto kept = choices_.find(key);
      kept && kept->size() == 1 && (*kept)[0] < kernels.size())
    return (*kept)[0];
  const std::optional<size_t> winner = measure(request, kernels);
  const uint8_t choice = static_cast<uint8_t>(winner.value_or(0));
  choices_.store(key, {&choice, 1}, winner.has_value());
  return choice;
}

/// None where nothing could be tried, for lack of memory, say.
std::optional<size_t> KernelTimer::measure(const Request& request,
                                           std::span<const Kernel> kernels) const {
  size_t workspace = 0;
  for (const Kernel& kernel : kernels) workspace = std::max(workspace, kernel.workspace);
  std::optional<TrialBuffers> memory;
  DeviceBytes call;
  PinnedBytes fault;
  try {
    memory.emplace(request, workspace, driver_, stopwatch_.stream());
    call = DeviceBytes(driver_, driver_.allocate(sizeof(CallBlock)));
    driver_.clear(call.get(), sizeof(CallBlock), stopwatch_.stream());
    fault = PinnedBytes(driver_, driver_.allocate_pinned(sizeof(FaultBlock)));
  } catch (const RunError&) {
    return {};
  }
  const LaunchState state{driver_, stopwatch_.stream(),
                          reinterpret_cast<const CallBlock*>(call.get()),
                          new (fault.get()) FaultBlock};
  return fastest_of(kernels.size(), [&](size_t i) {
    return stopwatch_.time([&] {
      kernels[i].launch(memory->buffers(), state);
      return true;
    });
  });
}

}  // namespace flow::cuda
