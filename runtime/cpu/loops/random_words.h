// Philox words of the elements of a step's result, which are those of the whole batch.
#pragma once

#include "runtime/base/index_maps.h"
#include "runtime/base/philox.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// Words that are drawn at a time: of 64 blocks side by side.
inline constexpr int64_t kRandomWords = 256;

/// Words of the blocks first ... first + blocks - 1, as philox_block gives them one by one.
/// REQUIRES: 4 * blocks <= kRandomWords
void draw_words(PhiloxKey key, uint32_t step, uint32_t pass, uint64_t first, int64_t blocks,
                uint32_t* words);

struct RandomWords {
  PhiloxKey key;
  WholeIndex place;
};

/// Of the first result, drawn under the name in the attribute `consumer`.
inline RandomWords random_words_of(const Request& request) {
  const TensorDesc& out = request.outputs[0];
  return {
      philox_key(request.seed, request.step.attributes.get<std::string>("consumer")),
      whole_index(out.shape, out.batch_axis, request.shards),
  };
}

/// Calls take(i, words, skipped, count) for stretches of the elements [first, end): element i + k
/// has words[skipped + k], k < count. `words` are whole blocks; the rows of a shard need not begin
/// with one. Words behind those of the elements have no meaning, but can be read up to
/// kRandomWords.
template <typename Take>
void for_random_words(const RandomWords& draw, const CallState& state, int64_t first, int64_t end,
                      Take take) {
  uint32_t words[kRandomWords] = {};
  for (int64_t i = first, count = 0; i < end; i += count) {
    const int64_t at = draw.place.at(i, state.shard), skipped = at % 4;
    count = std::min({kRandomWords - skipped, end - i, draw.place.run - i % draw.place.run});
    draw_words(draw.key, static_cast<uint32_t>(state.step), static_cast<uint32_t>(state.pass),
               static_cast<uint64_t>(at / 4), ceil_div(skipped + count, 4), words);
    take(i, words, skipped, count);
  }
}

}  // namespace flow::cpu
