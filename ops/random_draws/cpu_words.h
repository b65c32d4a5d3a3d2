// Helpers for kernels whose elements each use one Philox word.
#pragma once

#include <algorithm>

#include "ops/random_draws/problem.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// The number of words that are drawn at a time, which is 64 adjacent blocks.
inline constexpr int64_t kRandomWords = 256;

/// Draws the words of blocks first ... first + blocks - 1, the same words that philox_block returns
/// for each block. REQUIRES: 4 * blocks <= kRandomWords
void draw_words(PhiloxKey key, uint32_t step, uint32_t pass, uint64_t first, int64_t blocks,
                uint32_t* words);

/// The words of `count` elements of a result, starting with element `first`: element first + k has
/// words[skipped + k]. `words` contains whole blocks, but the rows of a shard need not begin with a
/// block. Words after those of the elements have no meaning but can be read, up to kRandomWords.
struct DrawnWords {
  int64_t first;
  const uint32_t* words;
  int64_t skipped, count;

  const uint32_t* own() const { return words + skipped; }
};

/// Calls take(drawn) for the elements of the piece, up to kRandomWords at a time.
template <typename Take>
void for_random_words(const ops::WordSource& source, const Piece& piece, Take take) {
  uint32_t words[kRandomWords] = {};
  const CallState& state = piece.state;
  for (int64_t i = piece.first, count = 0; i < piece.end; i += count) {
    const int64_t run = source.place.run, at = source.place.at(i, state.shard), skipped = at % 4;
    count = std::min({kRandomWords - skipped, piece.end - i, run - i % run});
    draw_words(source.key, static_cast<uint32_t>(state.step), static_cast<uint32_t>(state.pass),
               static_cast<uint64_t>(at / 4), ceil_div(skipped + count, 4), words);
    take(DrawnWords{i, words, skipped, count});
  }
}

/// Returns a Kernel that calls take(buffers, drawn) for all elements.
template <typename Take>
Kernel drawing_kernel(const Request& request, Take take) {
  return elementwise(request, [take, source = ops::word_source(request)](const Piece& piece) {
    for_random_words(source, piece, [&](const DrawnWords& drawn) { take(piece.buffers, drawn); });
  });
}

}  // namespace flow::cpu
