// The arguments that kernels of all devices receive: descriptions of a step's operands, and their
// memory.
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
  Shape shape;       // the shape in the plan, regardless of the memory layout
  bool used = true;  // false: an optional second result that no step reads; its pointer is null
  int batch_axis = plan::kNoBatch;
  /// Empty for a whole tensor. If `shape` is that of a slice: the element offsets at which the
  /// slice of each rank begins in the tensor, followed by the end of the last slice.
  std::span<const int64_t> bounds = {};

  /// The elements of the whole tensor, even if this is a slice of it.
  int64_t whole_elements() const { return bounds.empty() ? shape.elements() : bounds.back(); }
};

/// A step with descriptions of its operands. It exists only while a kernel is prepared; the code
/// that launches the kernel copies what it needs.
template <typename Desc>
struct StepRequest {
  const plan::Step& step;
  std::vector<Desc> inputs = {}, outputs = {};
  std::vector<std::vector<Desc>> epilogue_operands = {};  // indexed by the step's epilogue ops
  uint64_t seed = 0;
  int64_t shards = 1;  // the shards that share the batch: random draws are those of the whole batch
};

/// The memory of one launch, on its device. Output 0 may be exactly the memory of the input that
/// the plan's alias names, but never a part of it.
struct Buffers {
  std::span<std::byte*const> inputs, outputs;
  std::span<const std::span<std::byte* const>> epilogue_operands;
  std::byte* workspace = nullptr;  // the bytes that the kernel requested
};

/// Returns the kernel of `op`, or null if there is none.
template <typename KernelEntry>
const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view op) {
  const auto found = std::ranges::find(kernels, op, &KernelEntry::op);
  return found == kernels.end() ? nullptr : &*found;
}

/// Returns `error` with the step's name and its line of the job file added.
RunError at_step(const plan::Step& step, const RunError& error);

}  // namespace flow::exec
