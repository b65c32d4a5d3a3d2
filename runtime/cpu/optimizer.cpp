// The optimizers' updates, in place: one pass over a gradient and what it moves.
#include "runtime/cpu/features.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

/// w += a * g, the product rounded before the sum.
FLOW_VECTORISED void sgd_piece(const float* g, const float* w, float a, float* updated, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) updated[i] = w[i] + a * g[i];
}

struct MomentumRates {
  float scale, momentum, negative_rate;
};

/// m = b*m + scale*g, w -= lr*m
FLOW_VECTORISED void momentum_piece(const float* g, MomentumRates r, const float* w, const float* m,
                                    float* w_updated, float* m_updated, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float moved = r.momentum * m[i] + r.scale * g[i];
    w_updated[i] = w[i] + r.negative_rate * moved;
    m_updated[i] = moved;
  }
}

/// m = b*m + scale*g, w -= lr*(scale*g + b*m)
FLOW_VECTORISED void nesterov_piece(const float* g, MomentumRates r, const float* w, const float* m,
                                    float* w_updated, float* m_updated, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float moved = r.momentum * m[i] + scaled;
    w_updated[i] = w[i] + r.negative_rate * (scaled + r.momentum * moved);
    m_updated[i] = moved;
  }
}

}  // namespace

Kernel sgd_update(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   scale = request.step.attributes.get<double>("scale")](const Buffers& buffers,
                                                                         const CallState& state) {
    const float *g = input<float>(buffers, 0), *w = input<float>(buffers, 1);
    float* updated = output<float>(buffers, 0);
    const auto a = static_cast<float>(-state.learning_rate * scale);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      sgd_piece(g + first, w + first, a, updated + first, end - first);
    });
  };
  return kernel;
}

Kernel momentum_update(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  const auto piece = attributes.get<bool>("nesterov") ? nesterov_piece : momentum_piece;
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   scale = static_cast<float>(attributes.get<double>("scale")),
                   momentum = static_cast<float>(attributes.get<double>("momentum"))](
                      const Buffers& buffers, const CallState& state) {
    const float *g = input<float>(buffers, 0), *w = input<float>(buffers, 1),
                *m = input<float>(buffers, 2);
    float *w_updated = output<float>(buffers, 0), *m_updated = output<float>(buffers, 1);
    const MomentumRates rates{scale, momentum, static_cast<float>(-state.learning_rate)};
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      piece(g + i, rates, w + i, m + i, w_updated + i, m_updated + i, end - i);
    });
  };
  return kernel;
}

}  // namespace flow::cpu::fast
