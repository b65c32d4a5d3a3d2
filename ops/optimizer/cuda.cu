// CUDA kernels of the optimizers' updates, which pass once over the gradients of many variables and
// the arrays that they move. The file also contains the kernels that Muon runs before its update,
// except products. All kernels round like those of the CPU.
#include "ops/optimizer/cuda_layerwise.cuh"
#include "ops/optimizer/rules.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

/// Moves the momentum and computes the direction. If the factor is NaN, the momentum stays
/// unchanged, and the direction becomes zero and no update uses it.
template <typename T>
__global__ void find_direction(GradientFactor factor, optimizers::MuonDirection rule, const T* g,
                               const T* m, T* direction, T* next_m, int64_t n) {
  const bool skipped = factor.skipped<T>();
  const auto move = rule.at<T>(factor.scaled<T>(rule.scale));
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const T old = m[i];
    T mean = old;
    const T found = move(g[i], mean);
    next_m[i] = skipped ? old : mean;
    direction[i] = skipped ? T{0} : found;
  }
}

/// Computes a I + b gram + c square for matrices with `rows` rows.
template <typename T>
__global__ void polynomial(const T* gram, const T* square, T* out, int64_t rows, T a, T b, T c) {
  for (int64_t i = first_index(); i < rows * rows; i += index_step()) {
    const T value = b * gram[i] + c * square[i];
    out[i] = i % (rows + 1) == 0 ? value + a : value;
  }
}

Kernel prepare_muon_direction(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[rule = optimizers::MuonDirection(request.step.attributes),
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      const GradientFactor factor{buffers.inputs.size() > 2 ? buffers.inputs[2] : nullptr};
      launch(state.driver, state.stream, "muon_direction", shape_for(n), find_direction<T>, factor,
             rule, input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0),
             output<T>(buffers, 1), n);
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

}  // namespace

std::span<const KernelEntry> kernels::optimizer() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_UPDATE(name, rule) {.op = #name, .prepare_updates = updates_by<optimizers::rule>},
#define FLOW_SPARSE_UPDATE(op, rule) {#op, sparse_update_by<optimizers::rule>},
#define FLOW_LAYERWISE_UPDATE(name, rule) \
  {.op = #name, .prepare_updates = layerwise_by<optimizers::rule>},
#include "ops/optimizer/optimizers.def"
      {"muon_direction", prepare_muon_direction},
      {"muon_polynomial", prepare_muon_polynomial},
  };
  return kKernels;
}

}  // namespace flow::cuda
