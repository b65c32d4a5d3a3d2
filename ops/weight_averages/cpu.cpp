// Averages of variables, and Lookahead, both in place: most steps of a cycle of Lookahead leave all
// as it is.
#include <algorithm>

#include "runtime/base/optimizer_math.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// ema += rest * (w - ema): an average that has reached its variable stays there.
FLOW_VECTORIZED void ema_piece(const float* w, const float* ema, float* updated, float rest,
                               int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) updated[i] = ema[i] + rest * (w[i] - ema[i]);
}

Kernel prepare_ema_update(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   rest = static_cast<float>(1 - number(request, "decay"))](
                      const Buffers& buffers, const CallState& state) {
    const float *w = input<float>(buffers, 0), *ema = input<float>(buffers, 1);
    float* updated = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      if (state.step == 0)
        std::copy(w + i, w + end, updated + i);
      else
        ema_piece(w + i, ema + i, updated + i, rest, end - i);
    });
  };
  return kernel;
}

/// slow + alpha (w - slow)
FLOW_VECTORIZED void lookahead_piece(const float* slow, const float* w, float* next, float alpha,
                                     int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) next[i] = slow[i] + alpha * (w[i] - slow[i]);
}

/// The first operand in the first step of a cycle, else the second.
Kernel prepare_lookahead_start(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   steps = request.step.attributes.get<int64_t>("steps")](const Buffers& buffers,
                                                                          const CallState& state) {
    const float* from = input<float>(buffers, begins_cycle(steps, state.step) ? 0 : 1);
    float* to = output<float>(buffers, 0);
    if (from == to) return;
    for_pieces(threads, n, kPiece,
               [&](int64_t i, int64_t end) { std::copy(from + i, from + end, to + i); });
  };
  return kernel;
}

Kernel prepare_lookahead_update(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   steps = request.step.attributes.get<int64_t>("steps"),
                   alpha = static_cast<float>(number(request, "alpha"))](const Buffers& buffers,
                                                                         const CallState& state) {
    const float *slow = input<float>(buffers, 0), *w = input<float>(buffers, 1);
    float* next = output<float>(buffers, 0);
    const bool ends = ends_cycle(steps, state.step);
    if (!ends && w == next) return;
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      if (ends)
        lookahead_piece(slow + i, w + i, next + i, alpha, end - i);
      else
        std::copy(w + i, w + end, next + i);
    });
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> weight_averages() {
  static constexpr KernelEntry kKernels[] = {
      {"ema_update", prepare_ema_update},
      {"lookahead_start", prepare_lookahead_start},
      {"lookahead_update", prepare_lookahead_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
