// dropout: y = x * mask / (1 - rate). The mask is a function of (seed, name, step, element), the
// same on every device: an element is kept where its Philox word is at least round(rate * 2^32).
#include <bit>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/random_words.h"

namespace flow::cpu::fast {
namespace {

/// mask[i] = words[i] >= threshold, the largest word that is dropped plus one.
FLOW_VECTORIZED void keep_words(const uint32_t* words, uint64_t threshold, bool* mask, int64_t n) {
  // A rate just below 1 rounds to 2^32, which no word reaches.
  const bool none = threshold > UINT32_MAX;
  const auto least = static_cast<uint32_t>(threshold);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) mask[i] = !none && words[i] >= least;
}

/// y = mask ? x * factor : 0, by bits: a branch on a random mask is mispredicted half of the time,
/// and GCC makes one of the conditional.
FLOW_VECTORIZED void mask_piece(const float* x, const bool* mask, float factor, float* y,
                                int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t all = uint32_t{0} - static_cast<uint32_t>(mask[i]);
    y[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i] * factor) & all);
  }
}

float factor_of(const Request& request) {
  return static_cast<float>(dropout_factor(request.step.attributes.get<double>("rate")));
}

Kernel prepare_dropout(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   draw = random_words_of(request),
                   threshold = dropout_threshold(number(request, "rate")),
                   factor = factor_of(request)](const Buffers& buffers, const CallState& state) {
    const float* x = input<float>(buffers, 0);
    float* y = output<float>(buffers, 0);
    bool* mask = output<bool>(buffers, 1);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      bool kept[kRandomWords];
      for_random_words(draw, state, first, end,
                       [&](int64_t i, const uint32_t* words, int64_t skipped, int64_t count) {
                         bool* to = mask ? mask + i : kept;
                         keep_words(words + skipped, threshold, to, count);
                         mask_piece(x + i, to, factor, y + i, count);
                       });
    });
  };
  return kernel;
}

Kernel prepare_dropout_grad(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   factor = factor_of(request)](const Buffers& buffers, const CallState&) {
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      mask_piece(input<float>(buffers, 0) + first, input<bool>(buffers, 1) + first, factor,
                 output<float>(buffers, 0) + first, end - first);
    });
  };
  return kernel;
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
