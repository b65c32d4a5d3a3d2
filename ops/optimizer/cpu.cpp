// CPU kernels of the optimizers' updates, which pass once over a gradient and the arrays that it
// moves. Sparse updates pass over the rows of a gradient and the matching rows of a variable. The
// file also contains the kernels that Muon runs before its update, except products.
#include "ops/optimizer/cpu_layerwise.h"
#include "ops/optimizer/rules.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

// Each rule has a separate loop, because not every compiler can clone templates for CPU features.
#define FLOW_MOVE(op, Rule, written)                                                      \
  FLOW_VECTORIZED void op##_piece(const ArraysOf<optimizers::Rule>& arrays,               \
                                  const optimizers::Rule::Move<float>& move, int64_t n) { \
    move_elements<written>(arrays, move, n);                                              \
  }
#define FLOW_UPDATE(op, Rule)                                    \
  FLOW_MOVE(op, Rule, optimizers::Rule::kMoved)                  \
  Kernel prepare_##op(const Request& request) {                  \
    return update_kernel<optimizers::Rule>(request, op##_piece); \
  }
#define FLOW_SPARSE_UPDATE(op, Rule)                                    \
  FLOW_MOVE(op, Rule, optimizers::Rule::kMoved)                         \
  Kernel prepare_##op(const Request& request) {                         \
    return sparse_update_kernel<optimizers::Rule>(request, op##_piece); \
  }
#define FLOW_LAYERWISE_UPDATE(op, Rule)                                                          \
  FLOW_MOVE(op, Rule, optimizers::Rule::kWritten)                                                \
  FLOW_VECTORIZED TwoSums op##_squares(const ArraysOf<optimizers::Rule>& arrays,                 \
                                       const optimizers::Rule::Terms<float>& terms, int64_t n) { \
    return sum_squares<optimizers::Rule>(arrays, terms, n);                                      \
  }                                                                                              \
  Kernel prepare_##op(const Request& request) {                                                  \
    return layerwise_kernel<optimizers::Rule>(request, {op##_squares, op##_piece});              \
  }
#include "ops/optimizer/optimizers.def"

using optimizers::MuonDirection;

FLOW_VECTORIZED void direction_piece(const UpdateArrays<1>& arrays, float* direction,
                                     const MuonDirection::Move<float>& rule, int64_t n) {
  const MuonDirection::Move<float> move = rule;
  const float *g = arrays.g, *m = arrays.from[0];
  float* next_m = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    float mean = m[i];
    direction[i] = move(g[i], mean);
    next_m[i] = mean;
  }
}

/// Computes b gram + c square, which is the polynomial a I + b gram + c square without the
/// identity.
FLOW_VECTORIZED void polynomial_piece(const float* gram, const float* square, float* out, float b,
                                      float c, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = b * gram[i] + c * square[i];
}

/// Prepares muon_direction. If the factor is NaN, the direction becomes zero and no update uses it.
Kernel prepare_muon_direction(const Request& request) {
  const MuonDirection rule(request.step.attributes);
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   scale = GradientScale(request, rule.scale, 1)](const Buffers& buffers,
                                                                  const CallState&) {
    UpdateArrays<1> arrays(buffers);
    arrays.to[0] = output<float>(buffers, 1);  // the momentum
    float* direction = output<float>(buffers, 0);
    const double scaled = scale(buffers);
    if (std::isnan(scaled)) {
      std::fill_n(direction, n, 0.0f);
      return arrays.keep(n);
    }
    const auto move = rule.at<float>(scaled);
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      direction_piece(arrays.at(i), direction + i, move, end - i);
    });
  };
  return kernel;
}

Kernel prepare_muon_polynomial(const Request& request) {
  Kernel kernel;
  kernel.launch =
      [threads = request.threads, rows = request.outputs[0].shape[0],
       n = request.outputs[0].shape.elements(), a = static_cast<float>(number(request, "a")),
       b = static_cast<float>(number(request, "b")),
       c = static_cast<float>(number(request, "c"))](const Buffers& buffers, const CallState&) {
        const float *gram = input<float>(buffers, 0), *square = input<float>(buffers, 1);
        float* out = output<float>(buffers, 0);
        for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
          polynomial_piece(gram + i, square + i, out + i, b, c, end - i);
          const int64_t diagonal = rows + 1;
          for (int64_t k = ceil_div(i, diagonal) * diagonal; k < end; k += diagonal) out[k] += a;
        });
      };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> optimizer() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_UPDATE(op, rule) {#op, prepare_##op},
#include "ops/optimizer/optimizers.def"
      {"muon_direction", prepare_muon_direction},
      {"muon_polynomial", prepare_muon_polynomial},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
