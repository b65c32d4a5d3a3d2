// CUDA kernels of elementwise losses and their gradients, and of connectionist temporal
// classification, in which one block computes a sample and its threads share the states of a frame.
#include <array>
#include <cmath>

#include "ops/binary/cuda.cuh"
#include "ops/losses/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"

namespace flow::cuda {
namespace {

struct CtcIntegers {
  Integers labels, label_lengths, input_lengths;
};

/// The classes of the states of a sample, whose labels begin at `first`.
struct CtcClasses {
  Integers labels;
  ops::CtcSizes sizes;
  int64_t first;

  __device__ int64_t operator[](int64_t s) const {
    return s % 2 == 0 ? sizes.blank : ops::usable_class(labels[first + s / 2], sizes);
  }
};

template <typename T>
using CtcSample = ops::CtcSample<T, CtcClasses>;

template <typename T>
__device__ CtcSample<T> sample_of(const T* log_probs, const CtcIntegers& given,
                                  const ops::CtcSizes& sizes, int64_t i) {
  return {log_probs + i * sizes.frames * sizes.classes,
          sizes.classes,
          ops::usable_length(given.input_lengths[i], sizes.frames),
          2 * ops::usable_length(given.label_lengths[i], sizes.labels) + 1,
          {given.labels, sizes, i * sizes.labels}};
}

/// Sets row[s] = f(s) for all states of a sample and synchronizes the block.
template <typename T, typename F>
__device__ void for_states(const CtcSample<T>& sample, double* row, F f) {
  for (int64_t s = threadIdx.x; s < sample.states; s += blockDim.x) row[s] = f(s);
  __syncthreads();
}

/// Computes the losses. `room` has two rows of states for each sample. The last block checks the
/// integers of all operands one after another, because each check reads the result of the checks
/// before it.
template <typename T>
__global__ void ctc_losses(CtcIntegers given, const T* log_probs, ops::CtcSizes sizes, bool zero,
                           double* room, T* loss, RangeCheck labels, RangeCheck label_lengths,
                           RangeCheck input_lengths, const CallBlock* call, FaultBlock* fault) {
  const unsigned blocks = gridDim.x - 1;
  if (blockIdx.x == blocks) {
    check_range(given.labels, labels, call, fault);
    check_range(given.label_lengths, label_lengths, call, fault);
    check_range(given.input_lengths, input_lengths, call, fault);
    return;
  }
  for (int64_t i = blockIdx.x; i < sizes.samples; i += blocks) {
    const CtcSample<T> sample = sample_of(log_probs, given, sizes, i);
    double* rows = room + i * 2 * sizes.states();
    const auto row = [&](int64_t t) { return rows + t % 2 * sizes.states(); };
    for (int64_t t = 0; t < sample.frames; ++t)
      for_states(sample, row(t), [&](int64_t s) { return sample.up_to(t, s, row(t + 1)); });
    if (threadIdx.x > 0) continue;
    const double found = sample.loss(row(sample.frames + 1));
    loss[i] = static_cast<T>(zero && std::isinf(found) ? 0 : found);
  }
}

/// Computes the gradients of a frame from the shares of its states. The thread of the first state
/// of a class adds up all states of that class, in order.
template <typename T>
__device__ void add_gradients(const CtcSample<T>& sample, const double* shares, double dy, T* dx) {
  for (int64_t s = threadIdx.x; s < sample.states; s += blockDim.x) {
    const int64_t own = sample.class_of[s];
    bool is_first = true;
    for (int64_t before = 0; before < s && is_first; ++before)
      is_first = sample.class_of[before] != own;
    if (!is_first) continue;
    T sum = 0;
    for (int64_t k = s; k < sample.states; ++k)
      if (sample.class_of[k] == own)
        sum = static_cast<T>(static_cast<double>(sum) - dy * shares[k]);
    dx[own] = sum;
  }
}

/// Computes the gradients. For each sample, `room` has a row of states for each frame and three
/// more rows.
template <typename T>
__global__ void ctc_gradients(CtcIntegers given, const T* log_probs, const T* dy,
                              ops::CtcSizes sizes, double* room, T* dx) {
  for (int64_t i = blockIdx.x; i < sizes.samples; i += gridDim.x) {
    const CtcSample<T> sample = sample_of(log_probs, given, sizes, i);
    double* table = room + i * (sizes.frames + 3) * sizes.states();
    double* behind = table + sizes.frames * sizes.states();
    double* shares = behind + 2 * sizes.states();
    const auto row = [&](int64_t t) { return table + t * sizes.states(); };
    T* d = dx + i * sizes.frames * sizes.classes;
    for (int64_t k = threadIdx.x; k < sizes.frames * sizes.classes; k += blockDim.x) d[k] = T{0};
    for (int64_t t = 0; t < sample.frames; ++t)
      for_states(sample, row(t),
                 [&](int64_t s) { return sample.up_to(t, s, row(t > 0 ? t - 1 : 0)); });
    const double loss = sample.frames > 0 ? sample.loss(row(sample.frames - 1)) : 0;
    if (std::isinf(loss)) continue;
    for (int64_t t = sample.frames; t-- > 0;) {
      double* ends = behind + t % 2 * sizes.states();
      const double* after = behind + (t + 1) % 2 * sizes.states();
      for_states(sample, ends, [&](int64_t s) { return sample.behind(t, s, after); });
      for_states(sample, shares, [&](int64_t s) { return std::exp(row(t)[s] + ends[s] + loss); });
      add_gradients(sample, shares, static_cast<double>(dy[i]), d + t * sizes.classes);
      __syncthreads();  // all threads have read the shares
    }
  }
}

CtcIntegers ctc_integers(const Buffers& buffers, const std::array<DType, 3>& dtypes) {
  return {{buffers.inputs[0], dtypes[0]},
          {buffers.inputs[2], dtypes[1]},
          {buffers.inputs[3], dtypes[2]}};
}

std::array<DType, 3> ctc_dtypes(const Request& request) {
  return {request.inputs[0].dtype, request.inputs[2].dtype, request.inputs[3].dtype};
}

Kernel prepare_ctc(const Request& request) {
  const ops::CtcSizes sizes = ops::ctc_sizes(request);
  const RangeCheck labels = add_check(request, request.inputs[0], sizes.classes),
                   label_lengths = add_check(request, request.inputs[2], sizes.labels + 1),
                   input_lengths = add_check(request, request.inputs[3], sizes.frames + 1);
  LaunchShape shape{{blocks_for(sizes.samples)}, {kThreads}, kThreads / kWarp * sizeof(double)};
  shape.grid.x += 1;  // one more block for the checks
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    Kernel kernel;
    kernel.workspace = static_cast<size_t>(sizes.samples * 2 * sizes.states()) * sizeof(double);
    kernel.launch = [=, dtypes = ctc_dtypes(request),
                     zero = attribute<bool>(request, "zero_infinity")](const Buffers& buffers,
                                                                       const LaunchState& state) {
      launch(state, "ctc", shape, ctc_losses<T>, ctc_integers(buffers, dtypes),
             input<T>(buffers, 1), sizes, zero, reinterpret_cast<double*>(buffers.workspace),
             output<T>(buffers, 0), labels, label_lengths, input_lengths, state.call, state.fault);
    };
    return kernel;
  });
}

Kernel prepare_ctc_grad(const Request& request) {
  const ops::CtcSizes sizes = ops::ctc_sizes(request);
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    Kernel kernel;
    kernel.workspace =
        static_cast<size_t>(sizes.samples * (sizes.frames + 3) * sizes.states()) * sizeof(double);
    kernel.launch = [=, dtypes = ctc_dtypes(request)](const Buffers& buffers,
                                                      const LaunchState& state) {
      launch(state, "ctc_grad", LaunchShape{{blocks_for(sizes.samples)}, {kThreads}},
             ctc_gradients<T>, ctc_integers(buffers, dtypes), input<T>(buffers, 1),
             input<T>(buffers, 4), sizes, reinterpret_cast<double*>(buffers.workspace),
             output<T>(buffers, 0));
    };
    return kernel;
  });
}

}  // namespace

std::span<const KernelEntry> kernels::losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, Function, ...)       \
  {#op, pair_kernel<functions::Function>}, \
      {#op "_grad", triple_kernel<functions::Function##Gradient>},
#include "ops/binary/binary.def"
      {"ctc", prepare_ctc, Order::kOwn},
      {"ctc_grad", prepare_ctc_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
