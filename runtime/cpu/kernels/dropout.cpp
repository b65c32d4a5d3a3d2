// dropout: y = x * mask / (1 - rate). The mask is a function of (seed, name, step, element), the
// same on every device: an element is kept where its Philox word is at least round(rate * 2^32).
#include <bit>

#include "runtime/base/philox.h"
#include "runtime/base/whole_index.h"
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Blocks drawn side by side, so that the rounds below are loops over adjacent words.
constexpr int64_t kBlocks = 64, kWords = 4 * kBlocks;

/// Words of the blocks first ... first + blocks - 1, as philox_block gives them one by one.
/// REQUIRES: blocks <= kBlocks
FLOW_VECTORISED void draw_words(PhiloxKey key, uint32_t step, uint64_t first, int64_t blocks,
                                uint32_t* words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t i = 0; i < blocks; ++i) {
    const uint64_t block = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(block);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = step;
    c3[i] = 0;
  }
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int64_t i = 0; i < blocks; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[i], p1 = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ key.low;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ key.high;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

/// mask[i] = words[i] >= threshold, the largest word that is dropped plus one.
FLOW_VECTORISED void keep_words(const uint32_t* words, uint64_t threshold, bool* mask, int64_t n) {
  // A rate just below 1 rounds to 2^32, which no word reaches.
  const bool none = threshold > UINT32_MAX;
  const auto least = static_cast<uint32_t>(threshold);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) mask[i] = !none && words[i] >= least;
}

/// y = mask ? x * factor : 0, by bits: a branch on a random mask is mispredicted half of the time,
/// and GCC makes one of the conditional.
FLOW_VECTORISED void mask_piece(const float* x, const bool* mask, float factor, float* y,
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
  const plan::Attributes& attributes = request.step.attributes;
  const TensorDesc& out = request.outputs[0];
  const WholeIndex place = whole_index(out.shape, out.batch_axis, request.shards);
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = out.shape.elements(), place,
                   key = philox_key(request.seed, attributes.get<std::string>("consumer")),
                   threshold = dropout_threshold(attributes.get<double>("rate")),
                   factor = factor_of(request)](const Buffers& buffers, const CallState& state) {
    const float* x = input<float>(buffers, 0);
    float* y = output<float>(buffers, 0);
    bool* mask = output<bool>(buffers, 1);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      uint32_t words[kWords];
      bool kept[kWords];
      for (int64_t i = first, count = 0; i < end; i += count) {
        // The rows of a shard need not begin with a block.
        const int64_t at = place.at(i, state.shard), skipped = at % 4;
        count = std::min({kWords - skipped, end - i, place.run - i % place.run});
        draw_words(key, static_cast<uint32_t>(state.step), static_cast<uint64_t>(at / 4),
                   ceil_div(skipped + count, 4), words);
        bool* to = mask ? mask + i : kept;
        keep_words(words + skipped, threshold, to, count);
        mask_piece(x + i, to, factor, y + i, count);
      }
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
