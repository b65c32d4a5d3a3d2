// Muon, but for its products: the direction of a matrix, polynomials and the update, in one pass
// each.
#include "ops/optimizer/cpu_update.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

struct DirectionRates {
  float scale, momentum, rest;  // rest: 1 - momentum
};

/// m = momentum m + rest g; the direction is m.
FLOW_VECTORIZED void direction_piece(const UpdateArrays<1>& arrays, float* direction,
                                     const DirectionRates& rates, int64_t n) {
  const DirectionRates r = rates;
  const float *g = arrays.g, *m = arrays.from[0];
  float* next_m = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float mean = r.momentum * m[i] + r.rest * (r.scale * g[i]);
    next_m[i] = mean;
    direction[i] = mean;
  }
}

/// The same; the direction is rest g + momentum m.
FLOW_VECTORIZED void nesterov_direction_piece(const UpdateArrays<1>& arrays, float* direction,
                                              const DirectionRates& rates, int64_t n) {
  const DirectionRates r = rates;
  const float *g = arrays.g, *m = arrays.from[0];
  float* next_m = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float part = r.rest * (r.scale * g[i]);
    const float mean = r.momentum * m[i] + part;
    next_m[i] = mean;
    direction[i] = r.momentum * mean + part;
  }
}

/// a I + b gram + c square, without the identity.
FLOW_VECTORIZED void polynomial_piece(const float* gram, const float* square, float* out, float b,
                                      float c, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = b * gram[i] + c * square[i];
}

struct MuonRates {
  float negative_rate, decay;
};

FLOW_VECTORIZED void muon_piece(const UpdateArrays<1>& arrays, const MuonRates& rates, int64_t n) {
  const MuonRates r = rates;
  const float *d = arrays.g, *w = arrays.from[0];
  float* next_w = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) next_w[i] = w[i] + (r.negative_rate * d[i] + r.decay * w[i]);
}

/// The momentum is the second result.
UpdateArrays<1> momentum_arrays(const Buffers& buffers) {
  UpdateArrays<1> arrays(buffers);
  arrays.to[0] = output<float>(buffers, 1);
  return arrays;
}

/// Where the factor is NaN, the direction is one that is not used.
Kernel prepare_muon_direction(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   gradient_scale = GradientScale(request, 1),
                   momentum = number(request, "momentum"),
                   nesterov = request.step.attributes.get<bool>("nesterov")](const Buffers& buffers,
                                                                             const CallState&) {
    const UpdateArrays<1> arrays = momentum_arrays(buffers);
    float* direction = output<float>(buffers, 0);
    const double scale = gradient_scale(buffers);
    if (std::isnan(scale)) {
      std::fill_n(direction, n, 0.0f);
      return keep(arrays.from, arrays.to, n);
    }
    const DirectionRates rates{static_cast<float>(scale), static_cast<float>(momentum),
                               static_cast<float>(1 - momentum)};
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      (nesterov ? nesterov_direction_piece : direction_piece)(arrays.at(i), direction + i, rates,
                                                              end - i);
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

/// The factor says only whether there is an update.
Kernel prepare_muon_update(const Request& request) {
  const auto rates = [scale = number(request, "scale"),
                      weight_decay = number(request, "weight_decay")](double,
                                                                      const CallState& state) {
    return MuonRates{static_cast<float>(-state.learning_rate * scale),
                     static_cast<float>(-state.learning_rate * weight_decay)};
  };
  return update_kernel<1>(request, rates, muon_piece);
}

}  // namespace

std::span<const KernelEntry> muon() {
  static constexpr KernelEntry kKernels[] = {
      {"muon_direction", prepare_muon_direction},
      {"muon_polynomial", prepare_muon_polynomial},
      {"muon_update", prepare_muon_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
