// Muon, but for its products: the direction of a matrix, polynomials, and the update of many
// matrices in one launch. They round as the CPU's kernels do.
#include "ops/optimizer/cuda_update.cuh"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

/// Moves the momentum; where the factor is NaN, the direction is one that is not used.
template <typename T>
__global__ void find_direction(GradientFactor factor, double scale, double momentum, bool nesterov,
                               const T* g, const T* m, T* direction, T* next_m, int64_t n) {
  const bool skipped = factor.skipped<T>();
  const T scaled = static_cast<T>(factor.scaled<T>(scale)), kept = static_cast<T>(momentum),
          rest = static_cast<T>(1 - momentum);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const T old = m[i];
    const T part = rest * (scaled * g[i]);
    const T mean = kept * old + part;
    next_m[i] = skipped ? old : mean;
    direction[i] = skipped ? T{0} : nesterov ? kept * mean + part : mean;
  }
}

/// a I + b gram + c square, of so many rows.
template <typename T>
__global__ void polynomial(const T* gram, const T* square, T* out, int64_t rows, T a, T b, T c) {
  for (int64_t i = first_index(); i < rows * rows; i += index_step()) {
    const T value = b * gram[i] + c * square[i];
    out[i] = i % (rows + 1) == 0 ? value + a : value;
  }
}

/// The factor says only whether there is an update.
struct MuonRule {
  static constexpr int kMoved = 1;
  double scale, weight_decay;

  explicit MuonRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        weight_decay(attribute<double>(request, "weight_decay")) {}

  template <typename T>
  struct Move {
    T negative_rate, decay;
    __device__ void operator()(T direction, T (&values)[kMoved]) const {
      values[0] = values[0] + (negative_rate * direction + decay * values[0]);
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double, const CallBlock& call) const {
    return {static_cast<T>(-call.learning_rate * scale),
            static_cast<T>(-call.learning_rate * weight_decay)};
  }
};

Kernel prepare_muon_direction(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[scale = attribute<double>(request, "scale"),
             momentum = attribute<double>(request, "momentum"),
             nesterov = attribute<bool>(request, "nesterov"),
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      const GradientFactor factor{buffers.inputs.size() > 2 ? buffers.inputs[2] : nullptr};
      launch(state.driver, state.stream, "muon_direction", shape_for(n), find_direction<T>, factor,
             scale, momentum, nesterov, input<T>(buffers, 0), input<T>(buffers, 1),
             output<T>(buffers, 0), output<T>(buffers, 1), n);
    }};
  });
}

Kernel prepare_muon_polynomial(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[rows = request.outputs[0].shape[0],
             a = static_cast<T>(attribute<double>(request, "a")),
             b = static_cast<T>(attribute<double>(request, "b")),
             c = static_cast<T>(attribute<double>(request, "c"))](const Buffers& buffers,
                                                                  const LaunchState& state) {
      launch(state.driver, state.stream, "muon_polynomial", shape_for(rows * rows), polynomial<T>,
             input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0), rows, a, b, c);
    }};
  });
}

Updates prepare_muon_update(std::span<const Request> requests) {
  return updates_by<MuonRule>("muon_update", requests);
}

}  // namespace

std::span<const KernelEntry> kernels::muon() {
  static constexpr KernelEntry kKernels[] = {
      {"muon_direction", prepare_muon_direction},
      {"muon_polynomial", prepare_muon_polynomial},
      {.op = "muon_update", .prepare_updates = prepare_muon_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
