// Sums over shards along a binary tree. Level k stores the result of 2^k shards, and a part is
// joined to all levels that are full.
#include "runtime/cpu/backend/shard_sums.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "runtime/base/array.h"
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"
#include "runtime/exec/ranks/buckets.h"

namespace flow::cpu {
namespace {

using plan::Combine;

// Elements that fit in the first-level cache on their way up the tree.
constexpr int64_t kChunk = 1024;

/// Calls f with a zero of the element's type and a zero of the type in which elements are combined.
template <typename F>
void visit_part(DType dtype, bool scalar, F f) {
  if (dtype == DType::kBool) return f(uint8_t{}, uint8_t{});
  visit_dtype(dtype, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>)
      f(T{}, T{});
    else if (scalar)
      f(T{}, double{});
    else
      f(T{}, Wide<T>{});
  });
}

/// Adds two parts; integers wrap around.
template <typename T>
void add_parts(const T* x, T* sum, int64_t n) {
  if constexpr (std::is_integral_v<T>)
    for (int64_t i = 0; i < n; ++i)
      sum[i] = static_cast<T>(static_cast<uint64_t>(sum[i]) + static_cast<uint64_t>(x[i]));
  else
    add_to(x, sum, n);
}

/// Takes the larger or smaller elements; the result is NaN if either element is NaN.
template <bool kLarger, typename T>
void take_extreme(const T* x, T* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool wins = (kLarger ? x[i] > sum[i] : x[i] < sum[i]) || x[i] != x[i];
    sum[i] = wins ? x[i] : sum[i];
  }
}

template <typename T>
void join(Combine combine, const T* x, T* sum, int64_t n) {
  if (combine == Combine::kMax)
    take_extreme<true>(x, sum, n);
  else if (combine == Combine::kMin)
    take_extreme<false>(x, sum, n);
  else
    add_parts(x, sum, n);
}

/// A mean of shards divides their sum by a power of two, which is exact.
template <typename Total, typename T>
void write_whole(Combine combine, int64_t shards, const Total* total, T* whole, int64_t n) {
  if constexpr (std::is_floating_point_v<Total>) {
    const Total factor = combine == Combine::kMean ? 1 / static_cast<Total>(shards) : Total{1};
    for (int64_t i = 0; i < n; ++i) whole[i] = convert<T>(total[i] * factor);
  } else {
    std::copy_n(total, n, whole);
  }
}

/// Computes the total of `totals` along the tree of ranks: the sum of each right half adds that of
/// the left half.
template <typename Total>
void join_totals(plan::Combine combine, std::span<const std::byte* const> totals, int64_t at,
                 Total* sum, int64_t n) {
  if (totals.size() == 1) {
    std::copy_n(reinterpret_cast<const Total*>(totals[0]) + at, n, sum);
    return;
  }
  const size_t half = totals.size() / 2;
  Total left[kChunk];
  join_totals(combine, totals.first(half), at, left, n);
  join_totals(combine, totals.subspan(half), at, sum, n);
  join(combine, left, sum, n);
}

}  // namespace

ShardSums::ShardSums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks) {
  if (!job.sharding) return;
  shards_ = job.sharding->count;
  here_ = shards_ / ranks;
  for (const auto& [tensor, step] : exec::list_combined(job, owners)) add_entry(job, tensor, step);
}

void ShardSums::add_entry(const plan::Job& job, plan::TensorId id, size_t step) {
  const plan::Tensor& tensor = job[id];
  const Entry entry{id,
                    step,
                    tensor.dtype,
                    tensor.shape.rank() == 0,
                    tensor.shape.elements(),
                    *tensor.combine,
                    exec::total_size(tensor)};
  const size_t stride = round_up(static_cast<size_t>(entry.elements) * entry.total_size, 64);
  levels_.push_back({bytes_, stride});
  bytes_ += static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(here_))) * stride;
  entries_.push_back(entry);
}

template <typename T, typename Total>
void ShardSums::add_piece(size_t entry, int64_t shard, T* part, Total* total, int64_t first,
                          int64_t end) const {
  const plan::Combine combine = entries_[entry].combine;
  const auto level = [&](size_t k, int64_t at) {
    return reinterpret_cast<Total*>(memory_ + levels_[entry].offset + k * levels_[entry].stride) +
           at;
  };
  const auto full = static_cast<size_t>(std::countr_one(static_cast<uint64_t>(shard)));
  Total joined[kChunk];
  for (int64_t at = first; at < end; at += kChunk) {
    const int64_t n = std::min(kChunk, end - at);
    for (int64_t i = 0; i < n; ++i) joined[i] = convert<Total>(part[at + i]);
    for (size_t k = 0; k < full; ++k) join(combine, level(k, at), joined, n);
    if (shard + 1 < here_)
      std::copy_n(joined, n, level(full, at));
    else if (total)
      std::copy_n(joined, n, total + at);
    else
      write_whole(combine, shards_, joined, part + at, n);
  }
}

void ShardSums::add(int threads, size_t entry, int64_t shard, std::byte* part,
                    std::byte* total) const {
  if (part == total) return;
  const Entry& sum = entries_[entry];
  visit_part(sum.dtype, sum.scalar, [&]<typename T, typename Total>(T, Total) {
    for_pieces(threads, sum.elements, kPiece, [&](int64_t first, int64_t end) {
      add_piece(entry, shard, reinterpret_cast<T*>(part), reinterpret_cast<Total*>(total), first,
                end);
    });
  });
}

void ShardSums::join_ranks(int threads, size_t entry, int64_t first, int64_t end,
                           std::span<const std::byte* const> totals, std::byte* whole) const {
  const Entry& sum = entries_[entry];
  visit_part(sum.dtype, sum.scalar, [&]<typename T, typename Total>(T, Total) {
    for_pieces(threads, end - first, kPiece, [&](int64_t begin, int64_t behind) {
      Total joined[kChunk];
      for (int64_t at = begin; at < behind; at += kChunk) {
        const int64_t n = std::min(kChunk, behind - at);
        join_totals(sum.combine, totals, at, joined, n);
        write_whole(sum.combine, shards_, joined, reinterpret_cast<T*>(whole) + at, n);
      }
    });
  });
}

}  // namespace flow::cpu
