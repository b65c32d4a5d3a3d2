// What a CPU kernel is given and what it returns: a prepare that runs once, a Launch that runs
// every call and allocates nothing.
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

/// How the elements of a 4-D activation lie in memory. Logical shapes stay [N, C, H, W].
enum class Layout : uint8_t { kPlain, kChannelsLast };

/// Which layouts a kernel takes and gives. Operands that are not 4-D are always plain, and so are
/// variables, convolution weights and their gradients.
enum class Layouts : uint8_t {
  kPlain,  // plain alone; the backend reorders what is not
  kSame,   // all 4-D operands plain, or all of them channels-last
  kEach,   // each 4-D operand as its own desc says
};

struct TensorDesc : exec::TensorDesc {
  Layout layout = Layout::kPlain;
};

struct Request : exec::StepRequest<TensorDesc> {
  int threads = 1;                     // for parallel_for; results must not depend on it
  exec::Collectives* ranks = nullptr;  // that have slices of operands; they outlive the Launch
};

/// The workspace and all buffers of the arena are 64-byte aligned. Inputs of the job are where a
/// shard's rows begin: aligned to their elements.
using exec::Buffers;

/// What changes from call to call, and where a kernel reports a value out of range.
struct CallState {
  int64_t step = 0;
  double learning_rate = 0;
  int64_t shard = 0;
  std::optional<exec::Fault>* fault = nullptr;  // the first fault of a call is kept
  int64_t pass = 0;                             // of a loop

  /// As an update sees it whose variable has a learning rate `scale` times that of the call.
  CallState at_rate(double scale) const {
    CallState scaled = *this;
    scaled.learning_rate *= scale;
    return scaled;
  }
};

using Launch = std::function<void(const Buffers&, const CallState&)>;

struct Kernel {
  Launch launch;  // none: a low-precision kernel that does not pay for this call or on this CPU
  size_t workspace = 0;  // bytes, for the duration of the step
  size_t fused = 0;      // how many of the step's epilogue ops it does itself (from the first on);
                         // the backend runs the others apart, in place on output 0
  size_t gathered = 0;   // bytes that come together from all ranks in a launch
  std::string library = {};  // what does the work, where it is no loop of ours: "oneDNN jit:avx2"
};

/// Prepares one step. RunError when it cannot run on this CPU.
using Prepare = Kernel (*)(const Request&);

/// A kernel of one op.
struct KernelEntry {
  std::string_view op;
  Prepare prepare;
  Layouts layouts = Layouts::kPlain;  // of reference kernels: plain
  bool low_precision = false;   // takes and makes 16-bit floats; for others the backend widens them
  bool any_dtype = false;       // moves elements of any dtype, float64 too
  bool generates_code = false;  // by oneDNN, into executable memory
  /// Computes float64, on plain layouts, where the reference is slow.
  Prepare float64 = nullptr;
};

/// Float32 kernels (and integer ones), those of them that take float64 too or have a kernel for it,
/// and the reference kernels: plain loops in float64 or, where there is none, those for all floats.
std::span<const KernelEntry> fast_kernels();
std::span<const KernelEntry> double_kernels();
std::span<const KernelEntry> reference_kernels();
using exec::find_kernel;

}  // namespace flow::cpu
