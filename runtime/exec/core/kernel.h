// What kernels of all devices are given: the operands of a step, described, and their memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// An operand or a result of a kernel.
struct TensorDesc {
  std::string_view name;
  DType dtype;
  Shape shape;       // as the plan says, however its elements lie in memory
  bool used = true;  // false: a second result that nobody reads; its pointer is null
  int batch_axis = plan::kNoBatch;
  /// Of a slice, which `shape` then is: where that of each rank begins in the tensor, in elements,
  /// and where the last one ends.
  std::span<const int64_t> bounds = {};

  /// Of the tensor, also where this is a slice of it.
  int64_t whole_elements() const { return bounds.empty() ? shape.elements() : bounds.back(); }
};

/// A step with its operands described. Lives as long as a kernel is prepared; what launches it
/// keeps copies of what it needs.
template <typename Desc>
struct StepRequest {
  const plan::Step& step;
  std::vector<Desc> inputs = {}, outputs = {};
  std::vector<std::vector<Desc>> epilogue_operands = {};  // by epilogue op of the step
  uint64_t seed = 0;
  int64_t shards = 1;  // that share the batch: what is drawn is that of the whole batch
};

/// The memory of one launch, on its device. Output 0 may lie exactly on the input that the plan's
/// alias names, never on a part of it.
struct Buffers {
  std::span<std::byte*const> inputs, outputs;
  std::span<const std::span<std::byte* const>> epilogue_operands;
  std::byte* workspace = nullptr;  // the bytes that the kernel asked for
};

/// The kernel of `op`, or null.
template <typename KernelEntry>
const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view op) {
  const auto found = std::ranges::find(kernels, op, &KernelEntry::op);
  return found == kernels.end() ? nullptr : &*found;
}

/// The error of a step that cannot run, with its line of the job file and its name.
RunError at_step(const plan::Step& step, const RunError& error);

}  // namespace flow::exec
