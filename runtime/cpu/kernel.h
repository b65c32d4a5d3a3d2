// The interface of CPU kernels: the request that a prepare function receives and the kernel that it
// returns. A prepare function runs once; its Launch runs in every call and allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/kernel.h"
#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// The memory layout of a 4-D activation. Its logical shape is always [N, C, H, W].
enum class Layout : uint8_t { kPlain, kChannelsLast };

/// The layouts that a kernel accepts and returns. Operands that are not 4-D are always plain, and
/// so are variables, convolution weights and their gradients.
enum class Layouts : uint8_t {
  kPlain,  // only plain; the backend reorders other operands
  kSame,   // either all 4-D operands are plain, or all are channels-last
  kEach,   // each 4-D operand has the layout in its desc
};

struct TensorDesc : exec::TensorDesc {
  Layout layout = Layout::kPlain;
};

struct Request : exec::StepRequest<TensorDesc> {
  int threads = 1;  // used by parallel_for; results must not depend on it
  // The ranks that have slices of operands; they outlive the Launch.
  exec::Collectives* ranks = nullptr;
};

/// The workspace and all buffers of the arena are 64-byte aligned. Inputs of the job begin at a
/// shard's rows and are only aligned to their elements.
using exec::Buffers;

/// The values that change from call to call, and the place where a kernel reports a value that is
/// out of range.
struct CallState {
  int64_t step = 0;
  double learning_rate = 0;
  int64_t shard = 0;
  std::optional<exec::Fault>* fault = nullptr;  // receives the first fault of a call
  int64_t pass = 0;                             // the pass of a loop

  /// Returns this state as seen by the update of a variable whose learning rate is `scale` times
  /// that of the call.
  CallState at_rate(double scale) const {
    CallState scaled = *this;
    scaled.learning_rate *= scale;
    return scaled;
  }
};

using Launch = std::function<void(const Buffers&, const CallState&)>;

struct Kernel {
  Launch launch;  // empty if a low-precision kernel is not worthwhile for this call or on this CPU
  size_t workspace = 0;  // bytes, needed while the step runs
  // The number of leading epilogue ops of the step that the kernel performs itself. The backend
  // runs the remaining ones separately, in place on output 0.
  size_t fused = 0;
  size_t gathered = 0;  // bytes that a launch gathers from all ranks
  // The library kernel that does the work, if any, such as "oneDNN jit:avx2".
  std::string library = {};
};

/// Prepares one step. Throws RunError if the step cannot run on this CPU.
using Prepare = Kernel (*)(const Request&);

/// The kernel of one op.
struct KernelEntry {
  std::string_view op;
  Prepare prepare;
  Layouts layouts = Layouts::kPlain;  // always kPlain for reference kernels
  // True if it reads and makes 16-bit floats; for other kernels the backend widens them.
  bool low_precision = false;
  bool any_dtype = false;       // true if it moves elements of any dtype, including float64
  bool generates_code = false;  // true if oneDNN generates code for it in executable memory
  /// Computes float64 on plain layouts, if the reference kernel is slow.
  Prepare float64 = nullptr;
};

/// The tables of kernels: those for float32 and integers; those of them that also accept float64 or
/// have a separate kernel for it; and the reference kernels, which are plain loops in float64 or,
/// if an op has none, the kernel for all floats.
std::span<const KernelEntry> fast_kernels();
std::span<const KernelEntry> double_kernels();
std::span<const KernelEntry> reference_kernels();
using exec::find_kernel;

}  // namespace flow::cpu
