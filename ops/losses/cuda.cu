// Losses of one element each with their gradients; and connectionist temporal classification: a
// block for each sample, whose threads share the states of a frame. States are blank, label 1,
// blank, label 2, ..., blank. All is computed in double.
#include <array>
#include <cmath>

#include "ops/binary/cuda.cuh"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {
namespace {

struct CtcSizes {
  int64_t samples, labels, frames, classes, blank;

  __host__ __device__ int64_t states() const { return 2 * labels + 1; }
};

struct CtcIntegers {
  Integers labels, label_lengths, input_lengths;
};

__device__ double log_sum(double a, double b, double c) {
  const double none = -static_cast<double>(INFINITY);
  if (a == none && b == none && c == none) return none;
  double most = a > b ? a : b;
  if (c > most) most = c;
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

/// One sample. Integers out of range stop the run; they must not be read with.
template <typename T>
struct CtcSample {
  const T* log_probs;
  const Integers* labels;
  CtcSizes sizes;
  int64_t first, frames, states;  // `first`: of its labels

  __device__ CtcSample(const T* all, const CtcIntegers& given, const CtcSizes& most, int64_t i)
      : log_probs(all + i * most.frames * most.classes),
        labels(&given.labels),
        sizes(most),
        first(i * most.labels),
        frames(clamped(given.input_lengths[i], most.frames)),
        states(2 * clamped(given.label_lengths[i], most.labels) + 1) {}

  static __device__ int64_t clamped(int64_t length, int64_t most) {
    return length < 0 ? 0 : length > most ? most : length;
  }
  __device__ int64_t class_of(int64_t s) const {
    if (s % 2 == 0) return sizes.blank;
    const int64_t found = (*labels)[first + s / 2];
    return found >= 0 && found < sizes.classes ? found : sizes.blank;
  }
  __device__ double at(int64_t t, int64_t s) const {
    return static_cast<double>(log_probs[t * sizes.classes + class_of(s)]);
  }
  __device__ bool skips_to(int64_t s) const {
    return s > 1 && s % 2 == 1 && class_of(s) != class_of(s - 2);
  }
};

/// Logarithms of the probabilities of all paths up to frame t that end in each state.
template <typename T>
__device__ void advance(const CtcSample<T>& sample, int64_t t, const double* before, double* row) {
  const double none = -static_cast<double>(INFINITY);
  for (int64_t s = threadIdx.x; s < sample.states; s += blockDim.x) {
    if (t == 0)
      row[s] = s < 2 ? sample.at(0, s) : none;
    else
      row[s] = sample.at(t, s) + log_sum(before[s], s > 0 ? before[s - 1] : none,
                                         sample.skips_to(s) ? before[s - 2] : none);
  }
  __syncthreads();
}

/// Logarithms of the probabilities of all ends of paths behind frame t, from each state.
template <typename T>
__device__ void retreat(const CtcSample<T>& sample, int64_t t, const double* after, double* row) {
  const double none = -static_cast<double>(INFINITY);
  const auto through = [&](int64_t s) { return after[s] + sample.at(t + 1, s); };
  for (int64_t s = threadIdx.x; s < sample.states; s += blockDim.x) {
    if (t + 1 == sample.frames)
      row[s] = s >= sample.states - 2 ? 0 : none;
    else
      row[s] = log_sum(through(s), s + 1 < sample.states ? through(s + 1) : none,
                       s + 2 < sample.states && sample.skips_to(s + 2) ? through(s + 2) : none);
  }
  __syncthreads();
}

template <typename T>
__device__ double loss_of(const CtcSample<T>& sample, const double* last) {
  const double none = -static_cast<double>(INFINITY);
  if (sample.frames == 0) return sample.states == 1 ? 0 : -none;
  return -log_sum(last[sample.states - 1], sample.states > 1 ? last[sample.states - 2] : none,
                  none);
}

/// `room`: two rows of states for each sample. The last block checks
/// integers, one operand after another: each check reads what those before it found.
template <typename T>
__global__ void ctc_losses(CtcIntegers given, const T* log_probs, CtcSizes sizes, bool zero,
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
    const CtcSample<T> sample(log_probs, given, sizes, i);
    double* rows = room + i * 2 * sizes.states();
    const auto row = [&](int64_t t) { return rows + t % 2 * sizes.states(); };
    for (int64_t t = 0; t < sample.frames; ++t) advance(sample, t, row(t + 1), row(t));
    if (threadIdx.x > 0) continue;
    const double found = loss_of(sample, row(sample.frames + 1));
    loss[i] = static_cast<T>(zero && std::isinf(found) ? 0 : found);
  }
}

/// The gradients of a frame: each class by the thread of the first state that has it, in the order
/// of the states.
template <typename T>
__device__ void add_gradients(const CtcSample<T>& sample, const double* shares, double dy, T* dx) {
  for (int64_t s = threadIdx.x; s < sample.states; s += blockDim.x) {
    const int64_t own = sample.class_of(s);
    bool is_first = true;
    for (int64_t before = 0; before < s && is_first; ++before)
      is_first = sample.class_of(before) != own;
    if (!is_first) continue;
    T sum = 0;
    for (int64_t k = s; k < sample.states; ++k)
      if (sample.class_of(k) == own)
        sum = static_cast<T>(static_cast<double>(sum) - dy * shares[k]);
    dx[own] = sum;
  }
}

/// `room`: rows of states for all frames, and three more, for each sample.
template <typename T>
__global__ void ctc_gradients(CtcIntegers given, const T* log_probs, const T* dy, CtcSizes sizes,
                              double* room, T* dx) {
  for (int64_t i = blockIdx.x; i < sizes.samples; i += gridDim.x) {
    const CtcSample<T> sample(log_probs, given, sizes, i);
    double* table = room + i * (sizes.frames + 3) * sizes.states();
    double* behind = table + sizes.frames * sizes.states();
    double* shares = behind + 2 * sizes.states();
    const auto row = [&](int64_t t) { return table + t * sizes.states(); };
    T* d = dx + i * sizes.frames * sizes.classes;
    for (int64_t k = threadIdx.x; k < sizes.frames * sizes.classes; k += blockDim.x) d[k] = T{0};
    for (int64_t t = 0; t < sample.frames; ++t) advance(sample, t, row(t > 0 ? t - 1 : 0), row(t));
    const double loss = sample.frames > 0 ? loss_of(sample, row(sample.frames - 1)) : 0;
    if (std::isinf(loss)) continue;
    for (int64_t t = sample.frames; t-- > 0;) {
      double* ends = behind + t % 2 * sizes.states();
      retreat(sample, t, behind + (t + 1) % 2 * sizes.states(), ends);
      for (int64_t s = threadIdx.x; s < sample.states; s += blockDim.x)
        shares[s] = std::exp(row(t)[s] + ends[s] + loss);
      __syncthreads();
      add_gradients(sample, shares, static_cast<double>(dy[i]), d + t * sizes.classes);
      __syncthreads();  // whoever reads the shares
    }
  }
}

CtcSizes ctc_sizes(const Request& request) {
  const Shape &labels = request.inputs[0].shape, &log_probs = request.inputs[1].shape;
  return {log_probs[0], labels[1], log_probs[1], log_probs[2],
          attribute<int64_t>(request, "blank")};
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
  const CtcSizes sizes = ctc_sizes(request);
  const RangeCheck labels = add_check(request, request.inputs[0], sizes.classes),
                   label_lengths = add_check(request, request.inputs[2], sizes.labels + 1),
                   input_lengths = add_check(request, request.inputs[3], sizes.frames + 1);
  LaunchShape shape{{blocks_for(sizes.samples)}, {kThreads}, kThreads / kWarp * sizeof(double)};
  shape.grid.x += 1;  // the checks
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    Kernel kernel;
    kernel.workspace = static_cast<size_t>(sizes.samples * 2 * sizes.states()) * sizeof(double);
    kernel.launch = [=, dtypes = ctc_dtypes(request),
                     zero = attribute<bool>(request, "zero_infinity")](const Buffers& buffers,
                                                                       const LaunchState& state) {
      launch(state.driver, state.stream, "ctc", shape, ctc_losses<T>, ctc_integers(buffers, dtypes),
             input<T>(buffers, 1), sizes, zero, reinterpret_cast<double*>(buffers.workspace),
             output<T>(buffers, 0), labels, label_lengths, input_lengths, state.call, state.fault);
    };
    return kernel;
  });
}

Kernel prepare_ctc_grad(const Request& request) {
  const CtcSizes sizes = ctc_sizes(request);
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    Kernel kernel;
    kernel.workspace =
        static_cast<size_t>(sizes.samples * (sizes.frames + 3) * sizes.states()) * sizeof(double);
    kernel.launch = [=, dtypes = ctc_dtypes(request)](const Buffers& buffers,
                                                      const LaunchState& state) {
      launch(state.driver, state.stream, "ctc_grad",
             LaunchShape{{blocks_for(sizes.samples)}, {kThreads}}, ctc_gradients<T>,
             ctc_integers(buffers, dtypes), input<T>(buffers, 1), input<T>(buffers, 4), sizes,
             reinterpret_cast<double*>(buffers.workspace), output<T>(buffers, 0));
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
