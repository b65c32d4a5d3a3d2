// What a CPU kernel is given and what it returns: a prepare that runs once, a Launch that runs
// every call and allocates nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "runtime/exec/backend.h"
#include "runtime/plan/plan.h"

namespace flow::cpu {

/// How the elements of a 4-D activation lie in memory. Logical shapes stay [N, C, H, W].
enum class Layout { kPlain, kChannelsLast };

struct TensorDesc {
  std::string_view name;
  DType dtype;
  Shape shape;  // logical
  Layout layout = Layout::kPlain;
  bool used = true;  // false: a second result that nobody reads; its pointer is null
};

/// A step with its operands described. Posts: `post_operands[i]` belong to step.posts[i].
struct Request {
  const plan::Step& step;
  std::vector<TensorDesc> inputs, outputs;
  std::vector<std::vector<TensorDesc>> post_operands;
  uint64_t seed = 0;
  int threads = 1;
};

/// The buffers of one launch. `workspace` has the bytes the kernel asked for, 64-byte aligned.
struct Buffers {
  std::span<std::byte*const> inputs, outputs;
  std::span<const std::span<std::byte* const>> post_operands;
  std::byte* workspace = nullptr;
};

/// What changes from call to call, and where a kernel reports a value out of range.
struct CallState {
  int64_t step = 0;
  double learning_rate = 0;
  std::optional<exec::Fault>* fault = nullptr;  // the first fault of a call is kept
};

using Launch = std::function<void(const Buffers&, const CallState&)>;

struct Kernel {
  Launch launch;
  size_t workspace = 0;  // bytes, for the duration of the step
  size_t fused = 0;      // how many of the step's posts it does itself (from the first on);
                         // the backend runs the others apart, in place on output 0
};

/// Prepares one step. RunError when it cannot run on this CPU.
using Prepare = Kernel (*)(const Request&);

/// One line of kernels.def, resolved.
struct KernelEntry {
  std::string_view op;
  Prepare prepare;
  bool channels_last;  // takes and gives 4-D operands in Layout::kChannelsLast too
};

/// Float32 kernels (and integer ones), and the reference kernels: plain loops in float64.
std::span<const KernelEntry> fast_kernels();
std::span<const KernelEntry> reference_kernels();
/// The entry for `op`, or null.
const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view op);

}  // namespace flow::cpu
