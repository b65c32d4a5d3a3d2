// dropout: y = x * mask / (1 - rate). The mask is a function of (seed, name, step, element) and
// identical on all devices: an element is kept if its Philox word is at least round(rate * 2^32).
#include <bit>

#include "ops/random_draws/cpu_words.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

/// Sets mask[i] = words[i] >= threshold. The threshold is the largest dropped word plus one.
FLOW_VECTORIZED void keep_words(const uint32_t* words, uint64_t threshold, bool* mask, int64_t n) {
  // A rate just below 1 rounds to a threshold of 2^32, which no word reaches.
  const bool none = threshold > UINT32_MAX;
  const auto least = static_cast<uint32_t>(threshold);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) mask[i] = !none && words[i] >= least;
}

/// Computes y = mask ? x * factor : 0 with bit operations. GCC compiles the conditional to a
/// branch, which a random mask makes mispredict half of the time.
FLOW_VECTORIZED void mask_piece(const float* x, const bool* mask, float factor, float* y,
                                int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t all = uint32_t{0} - static_cast<uint32_t>(mask[i]);
    y[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i] * factor) & all);
  }
}

float factor_of(const Request& request) {
  return static_cast<float>(dropout_factor(number(request, "rate")));
}

Kernel prepare_dropout(const Request& request) {
  return drawing_kernel(
      request, [threshold = dropout_threshold(number(request, "rate")),
                factor = factor_of(request)](const Buffers& buffers, const DrawnWords& drawn) {
        bool kept[kRandomWords];
        bool* mask = output<bool>(buffers, 1);
        bool* to = mask ? mask + drawn.first : kept;
        keep_words(drawn.own(), threshold, to, drawn.count);
        mask_piece(input<float>(buffers, 0) + drawn.first, to, factor,
                   output<float>(buffers, 0) + drawn.first, drawn.count);
      });
}

Kernel prepare_dropout_grad(const Request& request) {
  return elementwise(request, [factor = factor_of(request)](const Piece& piece) {
    mask_piece(piece.input<float>(0), piece.input<bool>(1), factor, piece.output<float>(0),
               piece.size());
  });
}

}  // namespace

std::span<const KernelEntry> dropout() {
  static constexpr KernelEntry kKernels[] = {
      {"dropout", prepare_dropout},
      {"dropout_grad", prepare_dropout_grad, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
