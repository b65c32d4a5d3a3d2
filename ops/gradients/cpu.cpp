// CPU kernels that regularize, scale and clip gradients before updates, and that move the loss
// scale.
#include <cmath>

#include "ops/optimizer/cpu_piece_sums.h"
#include "ops/optimizer/optimizer_math.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Computes g + l1*sign(w) + l2*w.
FLOW_VECTORIZED void regularize_piece(const float* g, const float* w, float l1, float l2, float* to,
                                      int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float sign = static_cast<float>(w[i] > 0) - static_cast<float>(w[i] < 0);
    to[i] = g[i] + (l1 * sign + l2 * w[i]);
  }
}

/// Returns the sum of squares in float64, because squares of large gradients overflow float32.
FLOW_VECTORIZED double sum_squares(const float* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kLanes; ++k) {
      const auto value = static_cast<double>(x[i + k]);
      lanes[k] += value * value;
    }
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

Kernel prepare_regularize(const Request& request) {
  const auto l1 = static_cast<float>(request.step.attributes.get<double>("l1"));
  const auto l2 = static_cast<float>(request.step.attributes.get<double>("l2"));
  Kernel kernel;
  kernel.launch = [l1, l2, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const float *g = input<float>(buffers, 0), *w = input<float>(buffers, 1);
    float* to = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      regularize_piece(g + i, w + i, l1, l2, to + i, end - i);
    });
  };
  return kernel;
}

/// Prepares the factor and the norm of the gradients, which are the operands starting with `first`.
/// An operand before them is the loss scale, which the factor undoes.
Kernel prepare_factor(const Request& request, size_t first) {
  const PieceSums<double> sum_of(request, first, request.inputs.size());
  Kernel kernel;
  kernel.workspace = sum_of.bytes();
  kernel.gathered = sum_of.gathered_bytes();
  kernel.launch = [sum_of, first, clipping = NormClipping::of(request.step.attributes),
                   has_norm = request.outputs.size() > 1 && request.outputs[1].used,
                   threads = request.threads](const Buffers& buffers, const CallState&) {
    const double squares =
        sum_of(threads, buffers.workspace, [&](size_t operand, int64_t begin, int64_t end) {
          return sum_squares(input<float>(buffers, operand) + begin, end - begin);
        });
    const double loss_scale = first > 0 ? double_at<float>(buffers, 0, 0) : 1;
    const double norm = clipping.norm(squares, loss_scale);
    *output<float>(buffers, 0) = static_cast<float>(
        first > 0 ? clipping.unscaling(squares, loss_scale) : clipping.factor(norm));
    if (has_norm) *output<float>(buffers, 1) = static_cast<float>(norm);
  };
  return kernel;
}

Kernel prepare_clip_factor(const Request& request) { return prepare_factor(request, 0); }

Kernel prepare_unscale_factor(const Request& request) { return prepare_factor(request, 1); }

Kernel prepare_move_loss_scale(const Request& request) {
  Kernel kernel;
  kernel.launch = [rule = LossScaleRule::of(request.step.attributes)](const Buffers& buffers,
                                                                      const CallState&) {
    float loss_scale = *input<float>(buffers, 1), finite_steps = *input<float>(buffers, 2);
    flow::move_loss_scale(rule, static_cast<double>(*input<float>(buffers, 0)), loss_scale,
                          finite_steps);
    *output<float>(buffers, 0) = loss_scale;
    *output<float>(buffers, 1) = finite_steps;
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> gradients() {
  static constexpr KernelEntry kKernels[] = {
      {"regularize", prepare_regularize},
      {"clip_factor", prepare_clip_factor},
      {"unscale_factor", prepare_unscale_factor},
      {"move_loss_scale", prepare_move_loss_scale},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
