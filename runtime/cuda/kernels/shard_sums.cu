// Sums over shards: a part is joined to all levels of the tree that are full, in one kernel for
// many tensors.
#include "runtime/cuda/kernels/shard_sums.h"

#include <bit>

#include "runtime/base/convert.h"
#include "runtime/cuda/loops/table.cuh"

namespace flow::cuda {
namespace {

using plan::Combine;

struct Entry : ShardPart {
  int64_t end;  // as in Table
};

/// Where a shard stands in the tree.
struct Turn {
  int full;  // levels that hold sums
  bool last;
  int64_t shards;
};

/// Integers wrap around.
template <typename T>
__device__ T added(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

/// NaN wins.
template <typename T>
__device__ T joined(Combine combine, T sum, T x) {
  if (combine == Combine::kMax) return x > sum || x != x ? x : sum;
  if (combine == Combine::kMin) return x < sum || x != x ? x : sum;
  return added(sum, x);
}

/// A mean of shards is their sum by a power of two, which is exact.
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
    if (turn.last)
      part[i] = whole_of<T>(of.combine, turn.shards, sum);
    else
      level(turn.full)[i] = sum;
  }
}

template <typename T>
__device__ void join_floats(const ShardPart& of, const Piece& piece, const Turn& turn) {
  of.scalar ? join_piece<T, double>(of, piece, turn) : join_piece<T, Wide<T>>(of, piece, turn);
}

__global__ void join_all(Table<Entry> table, Turn turn) {
  const Piece piece = piece_of_block(table);
  const Entry& of = table.entries[piece.index];
  switch (of.dtype) {
    case DType::kFloat16:
      return join_floats<Float16>(of, piece, turn);
    case DType::kBFloat16:
      return join_floats<BFloat16>(of, piece, turn);
    case DType::kFloat32:
      return join_floats<float>(of, piece, turn);
    case DType::kFloat64:
      return join_piece<double, double>(of, piece, turn);
    case DType::kInt8:
      return join_piece<int8_t, int8_t>(of, piece, turn);
    case DType::kInt32:
      return join_piece<int32_t, int32_t>(of, piece, turn);
    case DType::kInt64:
      return join_piece<int64_t, int64_t>(of, piece, turn);
    default:  // uint8 and bool
      return join_piece<uint8_t, uint8_t>(of, piece, turn);
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
  for (size_t first = 0; first < parts.size(); first += kMostTensors) {
    Table<Entry> table{};
    int64_t blocks = 0;
    for (size_t i = first; i < std::min<size_t>(parts.size(), first + kMostTensors); ++i)
      table.entries[i - first] = {parts[i], blocks += chunks_of(parts[i].elements)};
    launch(state.driver, state.stream, "join_parts", {{static_cast<unsigned>(blocks)}, {kThreads}},
           join_all, table, turn);
  }
}

}  // namespace flow::cuda
