// Limits and special values of tensors' shapes.
#pragma once

#include <cstdint>
#include <limits>

namespace flow::ops {

/// No tensor has more dimensions; kernels may count on it. Extents are at least 1.
inline constexpr int kMaxRank = 8;

/// The largest window, stride, padding or count: kernels count these in 32 bits.
inline constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

/// The batch axis of a tensor, along which the rows of the batch lie, is an axis or one of these.
inline constexpr int kNoBatch = -1;       // the same for every row: variables, constants
inline constexpr int kBatchReduced = -2;  // computed from several rows: a mean over the batch

/// How the results of shards, each computed from its own rows, make the result of the whole batch.
/// kNone: they do not.
enum class Combine : uint8_t { kNone, kSum, kMean, kMax, kMin };

}  // namespace flow::ops
