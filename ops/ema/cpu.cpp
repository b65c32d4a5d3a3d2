// Averages of variables, in place.
#include <algorithm>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// ema += rest * (w - ema): an average that has reached its variable stays there.
FLOW_VECTORISED void ema_piece(const float* w, const float* ema, float* updated, float rest,
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

}  // namespace

std::span<const KernelEntry> ema() {
  static constexpr KernelEntry kKernels[] = {{"ema_update", prepare_ema_update}};
  return kKernels;
}

}  // namespace flow::cpu::fast
