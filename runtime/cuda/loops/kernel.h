// The interface of CUDA kernel families: the request that a prepare function receives and the
// kernel that it returns. A prepare function runs once; its Launch runs while a call is captured
// (or, without graphs, in every call) and allocates nothing. Also helpers for the typed pointers of
// a launch's buffers and for a step's attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/exec/core/kernel.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Tensors are in C order.
using exec::TensorDesc;

/// The values that differ from call to call and from shard to shard. They are in device memory,
/// where a copy updates them.
struct CallBlock {
  int64_t step = 0;
  double learning_rate = 0;
  int64_t shard = 0;
  int64_t pass = 0;  // the pass of a loop, counted by the device

  /// Returns this block as seen by the update of a variable whose learning rate is `scale` times
  /// that of the call.
  FLOW_HOST_DEVICE CallBlock at_rate(double scale) const {
    return {step, learning_rate * scale, shard, pass};
  }
};

/// The first out-of-range value of a call, in pinned host memory. The host clears it before the
/// call, and a kernel accesses it only if a value is wrong, so that a call without a fault has no
/// overhead. A check that finds `check` already set does not change the block.
struct FaultBlock {
  int32_t check = 0;  // 1 + the index into Checks, or 0 if there is no fault
  int64_t row = 0;    // the first faulty row, in the whole batch
  int64_t value = 0;
};

/// Describes a check, because kernels on the device only know its number.
struct Check {
  std::string where, operand;
  int64_t limit = 0;
};
using Checks = std::vector<Check>;

struct Request;
struct Kernel;

/// Chooses among kernels of one step by measuring their time.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  /// Returns the index of the fastest kernel and stores the choice under `key`.
  virtual size_t fastest(const std::string& key, const Request& request,
                         std::span<const Kernel> kernels) = 0;
};

/// The kernel must perform all epilogue ops of the step itself (see TakesEpilogue).
struct Request : exec::StepRequest<TensorDesc> {
  MathMode math_mode = {};
  Driver& driver;        // outlives the Launch
  Libraries& libraries;  // outlives the Launch
  Checks& checks;        // a kernel that checks values appends its checks to it
  size_t rank = 0;       // the index of this rank if several ranks have slices of the operands
  // The limit for a convolution, in bytes.
  size_t most_workspace = std::numeric_limits<size_t>::max();
  bool fuse = true;  // if false, no epilogue op becomes part of a library's kernel
  // Decides which epilogue ops are fused; if null, as many as the library accepts.
  StepTimer* timer = nullptr;
};

/// All buffers are 256-byte aligned.
using exec::Buffers;

/// Returns the math mode that a job allows libraries to use.
inline MathMode math_mode_of(const plan::Job& job) {
  return {.tf32 = job.precision == "tf32", .any_order = !job.deterministic};
}

struct LaunchState {
  Driver& driver;
  Stream stream;
  const CallBlock* call;  // device memory
  FaultBlock* fault;      // pinned host memory
};

using Launch = std::function<void(const Buffers&, const LaunchState&)>;

/// The blocks of a step's workspace that ranks exchange; each rank contributes one block. The
/// vectors are indexed by rank, and empty if nothing is exchanged.
struct RankGather {
  std::vector<size_t> offsets, bytes;
};

struct Kernel {
  Launch launch;
  size_t workspace = 0;  // bytes, needed while the step runs
  // Used if ranks have slices of operands and each rank needs data from all of them.
  RankGather gather = {};  // runs after `launch`
  Launch finish = {};      // runs after the gather; empty if there is none
  std::string name = {};   // the name of a library's algorithm; otherwise empty
};

/// Prepares one step. Throws RunError if the step cannot run on this device.
using Prepare = Kernel (*)(const Request&);

/// Updates several variables in few launches; `buffers[i]` belongs to request i.
using LaunchUpdates = std::function<void(std::span<const Buffers> buffers, const LaunchState&)>;
struct Updates {
  LaunchUpdates launch;
  // Bytes in the workspace of buffers[0], needed until all updates are done.
  size_t workspace = 0;
  RankGather gather = {};  // see Kernel
  LaunchUpdates finish = {};
};
/// REQUIRES: All steps have the same op, equal attributes and equal numbers of operands.
using PrepareUpdates = Updates (*)(std::span<const Request>);

/// The order in which a kernel adds or multiplies floats. With kCpu, results are bit-identical to
/// the CPU's.
enum class Order : uint8_t { kCpu, kOwn };

/// How a kernel accepts epilogue ops of the plan: not at all (the backend turns them into steps);
/// as a bias_add and a relu, in this order and each optional; or as a relu and, before it, an add
/// of a tensor with the result's shape, which the backend makes from a step (see passes.h).
enum class TakesEpilogue : uint8_t { kNone, kBiasRelu, kSumRelu };

/// How a kernel accepts images with channels last, [N, H, W, C] in C order. In all cases except
/// kNo, the floats of a mixed-precision job have 16 bits.
enum class ChannelsLast : uint8_t {
  kNo,
  kSame,  // elementwise; all tensors have one shape
  kAxis,  // the kernel's attribute `axis` is the axis of the channels
  kAxes,  // the kernel reduces along its attribute `axes`
  kFlag,  // its attribute kChannelsLast is set; filters are then [O, kh, kw, C/groups]
};
inline constexpr std::string_view kChannelsLast = "channels_last";

inline bool has_channels_last(const plan::Step& step) { return step.attributes.has(kChannelsLast); }

/// The kernel of one op: `prepare`, or `prepare_updates` for an op that updates variables.
struct KernelEntry {
  std::string_view op;
  Prepare prepare = nullptr;
  Order order = Order::kCpu;
  TakesEpilogue epilogue = TakesEpilogue::kNone;
  PrepareUpdates prepare_updates = nullptr;
  ChannelsLast channels_last = ChannelsLast::kNo;
};

std::span<const KernelEntry> all_kernels();
/// Returns the entry for `op`, or null.
const KernelEntry* find_kernel(std::string_view op);

/// Records why the library does not compute a step, in an attribute that only this backend sets.
void set_refusal(plan::Step& step, std::string reason);
/// Names the project's own kernel for a step, followed by the library's reason for refusing the
/// step, if there is one. `products` is the name of the library kernel that it uses for products,
/// if any.
std::string name_own_kernel(const plan::Step& step, std::string_view products = {});

template <typename T>
const T* input(const Buffers& buffers, size_t i) {
  return reinterpret_cast<const T*>(buffers.inputs[i]);
}

template <typename T>
T* output(const Buffers& buffers, size_t i) {
  return reinterpret_cast<T*>(buffers.outputs[i]);
}

template <typename T>
const T& attribute(const Request& request, std::string_view name) {
  return request.step.attributes.get<T>(name);
}

/// Returns the number of elements of the step's first result.
inline int64_t result_elements(const Request& request) {
  return request.outputs[0].shape.elements();
}

}  // namespace flow::cuda
