// Blocks of Philox side by side, so that the rounds are loops over adjacent words.
#include "runtime/cpu/loops/random_words.h"

#include "runtime/cpu/loops/features.h"

namespace flow::cpu {

FLOW_VECTORIZED void draw_words(PhiloxKey key, uint32_t step, uint32_t pass, uint64_t first,
                                int64_t blocks, uint32_t* words) {
  constexpr int64_t kBlocks = kRandomWords / 4;
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t i = 0; i < blocks; ++i) {
    const uint64_t block = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(block);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = step;
    c3[i] = pass;
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

}  // namespace flow::cpu
