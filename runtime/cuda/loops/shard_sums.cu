// Adds the part of a shard to all levels of the tree that are full. One kernel processes many
// tensors.
#include "runtime/cuda/loops/shard_sums.h"

#include <bit>

#include "runtime/base/element_types.h"
#include "runtime/cuda/loops/table.cuh"

namespace flow::cuda {
namespace {

using plan::Combine;

struct Entry : ShardPart {
  int64_t end;  // see Table
};

struct RankEntry : RankPart {
  int64_t end;  // see Table
};

struct Ranks {
  int count;
  int64_t shards;
};

/// The types of an element and of a sum.
template <typename T, typename Total>
struct Types {};

/// Calls f with the element type and the sum type of an entry.
template <typename Of, typename F>
__device__ void visit_types(const Of& of, F f) {
  const auto visit_float = [&]<typename T>(T*) {
    of.scalar ? f(Types<T, double>()) : f(Types<T, Wide<T>>());
  };
  switch (of.dtype) {
    case DType::kFloat16:
      return visit_float(static_cast<Float16*>(nullptr));
    case DType::kBFloat16:
      return visit_float(static_cast<BFloat16*>(nullptr));
    case DType::kFloat32:
      return visit_float(static_cast<float*>(nullptr));
    case DType::kFloat64:
      return f(Types<double, double>());
    case DType::kInt8:
      return f(Types<int8_t, int8_t>());
    case DType::kInt32:
      return f(Types<int32_t, int32_t>());
    case DType::kInt64:
      return f(Types<int64_t, int64_t>());
    default:  // uint8 and bool
      return f(Types<uint8_t, uint8_t>());
  }
}

/// The position of a shard in the tree.
struct Turn {
  int full;  // the number of levels that currently store sums
  bool last;
  int64_t shards;
};

/// Adds two values; integers wrap around.
template <typename T>
__device__ T added(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

/// Joins two values; the result is NaN if either value is NaN.
template <typename T>
__device__ T joined(Combine combine, T sum, T x) {
  if (combine == Combine::kMax) return x > sum || x != x ? x : sum;
  if (combine == Combine::kMin) return x < sum || x != x ? x : sum;
  return added(sum, x);
}

/// A mean of shards divides their sum by a power of two, which is exact.
template <typename T, typename Total>
__device__ T whole_of(Combine combine, int64_t shards, Total total) {
  if constexpr (std::is_floating_point_v<Total>)
    if (combine == Combine::kMean) total *= 1 / static_cast<Total>(shards);
  return convert<T>(total);
}

template <typename T, typename Total>
__device__ void join_piece(const ShardPart& of, const Piece& piece, const Turn& turn) {
  T* part = reinterpret_cast<T*>(of.part);
  const auto level = [&](int k) {
    return reinterpret_cast<Total*>(of.levels + static_cast<size_t>(k) * of.stride);
  };
  for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
    auto sum = convert<Total>(part[i]);
    for (int k = 0; k < turn.full; ++k) sum = joined(of.combine, sum, level(k)[i]);
    if (turn.last && of.total)
      reinterpret_cast<Total*>(of.total)[i] = sum;
    else if (turn.last)
      part[i] = whole_of<T>(of.combine, turn.shards, sum);
    else
      level(turn.full)[i] = sum;
  }
}

/// Joins totals along the tree of ranks: each sum of a right half adds that of the left half.
template <typename T, typename Total>
__device__ void join_totals(const RankPart& of, const Piece& piece, const Ranks& ranks) {
  const auto total = [&](int rank) {
    return reinterpret_cast<Total*>(of.totals + static_cast<size_t>(rank) * of.stride);
  };
  T* whole = reinterpret_cast<T*>(of.whole);
  for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
    for (int width = 1; width < ranks.count; width *= 2)
      for (int rank = 2 * width - 1; rank < ranks.count; rank += 2 * width)
        total(rank)[i] = joined(of.combine, total(rank)[i], total(rank - width)[i]);
    whole[i] = whole_of<T>(of.combine, ranks.shards, total(ranks.count - 1)[i]);
  }
}

__global__ void join_all(Table<Entry> table, Turn turn) {
  const Piece piece = piece_of_block(table);
  const Entry& of = table.entries[piece.index];
  visit_types(of, [&]<typename T, typename Total>(Types<T, Total>) {
    join_piece<T, Total>(of, piece, turn);
  });
}

__global__ void join_all_ranks(Table<RankEntry> table, Ranks ranks) {
  const Piece piece = piece_of_block(table);
  const RankEntry& of = table.entries[piece.index];
  visit_types(of, [&]<typename T, typename Total>(Types<T, Total>) {
    join_totals<T, Total>(of, piece, ranks);
  });
}

/// Launches the kernel once for every kMost parts, which fill a table.
template <typename OneEntry, typename Part, typename Argument>
void launch_tables(const char* name, std::span<const Part> parts, const Argument& argument,
                   void (*kernel)(Table<OneEntry>, Argument), const LaunchState& state) {
  constexpr size_t kMost = Table<OneEntry>::kMost;
  for (size_t first = 0; first < parts.size(); first += kMost) {
    Table<OneEntry> table{};
    int64_t blocks = 0;
    for (size_t i = first; i < std::min(parts.size(), first + kMost); ++i)
      table.entries[i - first] = {parts[i], blocks += chunks_of(parts[i].elements)};
    launch(state.driver, state.stream, name, {{static_cast<unsigned>(blocks)}, {kThreads}}, kernel,
           table, argument);
  }
}

}  // namespace

size_t level_bytes(DType dtype, bool scalar, int64_t elements) {
  const size_t size = !is_float(dtype)                     ? size_of(dtype)
                      : scalar || dtype == DType::kFloat64 ? sizeof(double)
                                                           : sizeof(float);
  return static_cast<size_t>(elements) * size;
}

void join_parts(std::span<const ShardPart> parts, int64_t shard, int64_t shards,
                const LaunchState& state) {
  const Turn turn{std::countr_one(static_cast<uint64_t>(shard)), shard + 1 == shards, shards};
  launch_tables<Entry>("join_parts", parts, turn, join_all, state);
}

void join_ranks(std::span<const RankPart> parts, int ranks, int64_t shards,
                const LaunchState& state) {
  launch_tables<RankEntry>("join_ranks", parts, Ranks{ranks, shards}, join_all_ranks, state);
}

}  // namespace flow::cuda
