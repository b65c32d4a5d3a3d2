// What a CUDA kernel family is given and what it returns: a prepare that runs once, a Launch that
// is called while a call is captured (or, without graphs, in every call) and allocates nothing;
// typed pointers to a launch's buffers, and a step's attributes.
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

/// What differs from call to call and from shard to shard, in device memory: a copy puts it there.
struct CallBlock {
  int64_t step = 0;
  double learning_rate = 0;
  int64_t shard = 0;
  int64_t pass = 0;  // of a loop; the device counts them

  /// As an update sees it whose variable has a learning rate `scale` times that of the call.
  FLOW_HOST_DEVICE CallBlock at_rate(double scale) const {
    return {step, learning_rate * scale, shard, pass};
  }
};

/// The first value of a call that was out of range, in pinned host memory: the host clears it
/// before the call, and a kernel reaches over to it where something is wrong alone, so that a call
/// without a fault pays nothing. A check that finds `check` set leaves the block alone.
struct FaultBlock {
  int32_t check = 0;  // 1 + index into Checks; 0: none
  int64_t row = 0;    // the first one, in the whole batch
  int64_t value = 0;
};

/// Names what checks on the device can only number.
struct Check {
  std::string where, operand;
  int64_t limit = 0;
};
using Checks = std::vector<Check>;

struct Request;
struct Kernel;

/// Chooses among kernels of one step by time.
class StepTimer {
 public:
  virtual ~StepTimer() = default;
  /// The index of the fastest, which is kept under `key`.
  virtual size_t fastest(const std::string& key, const Request& request,
                         std::span<const Kernel> kernels) = 0;
};

/// The kernel does all epilogue ops of the step itself (see TakesEpilogue).
struct Request : exec::StepRequest<TensorDesc> {
  MathMode math_mode = {};
  Driver& driver;        // outlives the Launch
  Libraries& libraries;  // likewise
  Checks& checks;        // a kernel that checks values appends here
  size_t rank = 0;       // of several that have slices of operands: this one
  size_t most_workspace = std::numeric_limits<size_t>::max();  // bytes, of a convolution
  bool fuse = true;            // false: no epilogue op is part of a library's kernel
  StepTimer* timer = nullptr;  // decides which are; null: as many as the library takes
};

/// All of them are 256-byte aligned.
using exec::Buffers;

/// What a job lets libraries do.
inline MathMode math_mode_of(const plan::Job& job) {
  return {.tf32 = job.precision == "tf32", .any_order = !job.deterministic};
}

struct LaunchState {
  Driver& driver;
  Stream stream;
  const CallBlock* call;  // on the device
  FaultBlock* fault;      // pinned
};

using Launch = std::function<void(const Buffers&, const LaunchState&)>;

/// What ranks bring together in the workspace of a step: each its own block. By rank; empty:
/// nothing.
struct RankGather {
  std::vector<size_t> offsets, bytes;
};

struct Kernel {
  Launch launch;
  size_t workspace = 0;  // bytes, for the duration of the step
  // Where ranks have slices of operands, and each needs to know something of all of them:
  RankGather gather = {};  // behind `launch`
  Launch finish = {};      // behind that; else none
  std::string name = {};   // of a library's algorithm; else none
};

/// Prepares one step. RunError when it cannot run on this device.
using Prepare = Kernel (*)(const Request&);

/// Updates of several variables in few launches: `buffers[i]` belong to request i.
using LaunchUpdates = std::function<void(std::span<const Buffers> buffers, const LaunchState&)>;
struct Updates {
  LaunchUpdates launch;
  size_t workspace = 0;    // bytes, of buffers[0], for the duration of all
  RankGather gather = {};  // as of Kernel
  LaunchUpdates finish = {};
};
/// REQUIRES: steps of one op, with equal attributes and numbers of operands.
using PrepareUpdates = Updates (*)(std::span<const Request>);

/// In which order a kernel adds or multiplies floats. In the CPU's, it gives the CPU's bits.
enum class Order : uint8_t { kCpu, kOwn };

/// How a kernel takes epilogue ops of the plan: none (the backend makes steps of them), or a
/// bias_add and a relu, in this order, each optional; or a relu and, before it, an add of a tensor
/// like the result, which the backend makes of a step (see passes.h).
enum class TakesEpilogue : uint8_t { kNone, kBiasRelu, kSumRelu };

/// How a kernel takes images with channels last, [N, H, W, C] in C order: not at all, or with the
/// floats of a mixed job in 16 bits:
enum class ChannelsLast : uint8_t {
  kNo,
  kSame,  // all of one shape, element by element
  kAxis,  // channels lie along its attribute `axis`
  kAxes,  // it reduces along its attribute `axes`
  kFlag,  // its attribute kChannelsLast says so, also of filters, which are [O, kh, kw, C/groups]
};
inline constexpr std::string_view kChannelsLast = "channels_last";

inline bool has_channels_last(const plan::Step& step) { return step.attributes.has(kChannelsLast); }

/// A kernel of one op: `prepare`, or of an op that updates variables, `prepare_updates`.
struct KernelEntry {
  std::string_view op;
  Prepare prepare = nullptr;
  Order order = Order::kCpu;
  TakesEpilogue epilogue = TakesEpilogue::kNone;
  PrepareUpdates prepare_updates = nullptr;
  ChannelsLast channels_last = ChannelsLast::kNo;
};

std::span<const KernelEntry> all_kernels();
/// The entry for `op`, or null.
const KernelEntry* find_kernel(std::string_view op);

/// Keeps, as an attribute that this backend alone sets, why the library does not compute a step.
void set_refusal(plan::Step& step, std::string reason);
/// Names our kernel for a step, with the library's refusal, if there was one. `products`: of the
/// library's kernel that it uses, if any.
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

/// Of the step's first result.
inline int64_t result_elements(const Request& request) {
  return request.outputs[0].shape.elements();
}

}  // namespace flow::cuda
