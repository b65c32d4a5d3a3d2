// Limits and special values of tensor shapes.
#pragma once

#include <cstdint>
#include <limits>

namespace flow::ops {

/// The largest rank of a tensor; kernels rely on it. Extents are at least 1.
inline constexpr int kMaxRank = 8;

/// The largest window, stride, padding or count, because kernels store these in 32 bits.
inline constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

/// The batch axis of a tensor contains the rows of the batch. It is the index of an axis or one of
/// these values.
inline constexpr int kNoBatch = -1;       // equal for all rows: variables, constants
inline constexpr int kBatchReduced = -2;  // computed from several rows: a mean over the batch

/// How the results of shards, each computed from its own rows, combine into the result of the whole
/// batch. With kNone they do not combine.
enum class Combine : uint8_t { kNone, kSum, kMean, kMax, kMin };

}  // namespace flow::ops
