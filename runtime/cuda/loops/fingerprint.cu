// Computes moments, extremes and hashes of elements in any order, as sums over threads, blocks and
// parts.
#include "runtime/cuda/loops/fingerprint.h"

#include <algorithm>

#include "runtime/base/element_types.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

// Elements per block, unless that takes more than kMostParts blocks.
constexpr int64_t kOfBlock = 16 * kThreads;
constexpr int64_t kMostParts = 1024;

/// Maps the position of an element in memory to its index in the plan's tensor, and to its row and
/// column in the hash.
struct HashRows {
  Loops<1> order;  // maps memory order to C order
  bool plain;      // true if both orders are the same
  int64_t elements, first;
  int64_t columns;
  Divider by_columns;

  __device__ int64_t index(int64_t i) const { return plain ? i : order.at(i).of[0]; }
  /// Returns the row and column of an index in the whole tensor.
  __device__ Division<int64_t> place(int64_t index) const {
    if (index >= kNarrow) return by_columns.divide(index);
    const Division<int32_t> place = by_columns.divide(static_cast<int32_t>(index));
    return {place.quotient, place.remainder};
  }
};

/// Returns the product of a word and the weight of its place, as runtime/base/fingerprint.h defines
/// it.
__device__ uint64_t hashed(uint64_t word, int64_t row, int64_t column) {
  return word * hash_key(column % kHashKeys) * hash_factor(row, column / kHashKeys);
}

/// Hashes one element. An element of 64 bits counts as two words, the lower one first.
template <typename T>
__device__ uint64_t hash_element(T x, const Division<int64_t>& place) {
  if constexpr (sizeof(T) == sizeof(uint64_t)) {
    const auto bits = bits_as<uint64_t>(x);
    const int64_t column = 2 * place.remainder;
    return hashed(bits & 0xFFFFFFFF, place.quotient, column) +
           hashed(bits >> 32, place.quotient, column + 1);
  } else if constexpr (sizeof(T) == sizeof(uint32_t)) {
    return hashed(bits_as<uint32_t>(x), place.quotient, place.remainder);
  } else if constexpr (sizeof(T) == sizeof(uint16_t)) {
    return hashed(x.bits, place.quotient, place.remainder);
  } else {
    return hashed(static_cast<uint8_t>(x), place.quotient, place.remainder);
  }
}

__device__ void add_moments(double x, Fingerprint& to) {
  if (x - x != 0) {
    ++to.not_finite;
    return;
  }
  to.sum += x;
  to.absolute += x < 0 ? -x : x;
  to.square += x * x;
  to.least = x < to.least ? x : to.least;
  to.most = x > to.most ? x : to.most;
}

/// Combines the fingerprints of the block's threads, except for their counts. Every thread receives
/// the result.
__device__ Fingerprint over_block(Fingerprint own) {
  own.sum = over_block(own.sum, Sum{});
  own.absolute = over_block(own.absolute, Sum{});
  own.square = over_block(own.square, Sum{});
  own.least = over_block(own.least, Smaller{});
  own.most = over_block(own.most, Larger{});
  own.not_finite = over_block(own.not_finite, Sum{});
  own.hash = over_block(own.hash, Sum{});
  return own;
}

__global__ void clear(Fingerprint* made, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) made[i] = Fingerprint();
}

/// Writes a part for each block. If there is only one block, its part is merged into `made`
/// instead.
template <typename T, typename Shown>
__global__ void take_parts(HashRows rows, const T* x, Fingerprint* parts, Fingerprint* made) {
  const int64_t first = rows.first + made->count;
  Fingerprint own;
  for (int64_t i = first_index(); i < rows.elements; i += index_step()) {
    const auto value = convert<Shown>(x[i]);
    add_moments(convert<double>(value), own);
    own.hash += hash_element(value, rows.place(first + rows.index(i)));
  }
  own = over_block(own);
  if (threadIdx.x > 0) return;
  if (gridDim.x > 1) {
    parts[blockIdx.x] = own;
  } else {
    own.count = rows.elements;
    made->merge(own);
  }
}

/// Joins the parts and merges the result into `made`. Runs as a single block.
__global__ void join_parts_of(const Fingerprint* parts, int64_t count, int64_t elements,
                              Fingerprint* made) {
  Fingerprint own;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) own.merge(parts[i]);
  own = over_block(own);
  if (threadIdx.x > 0) return;
  own.count = elements;
  made->merge(own);
}

template <typename T, typename Shown>
void take(const HashRows& rows, const FingerprintSource& source, Fingerprint* made,
          Fingerprint* parts, const LaunchState& state) {
  constexpr size_t kShared = kThreads / kWarp * sizeof(double);
  const int64_t count = std::clamp<int64_t>(ceil_div(source.elements, kOfBlock), 1, kMostParts);
  launch(state.driver, state.stream, "fingerprint",
         {{static_cast<unsigned>(count)}, {kThreads}, kShared}, take_parts<T, Shown>, rows,
         reinterpret_cast<const T*>(source.data), parts, made);
  if (count > 1)
    launch(state.driver, state.stream, "join_fingerprint", {{1}, {kThreads}, kShared},
           join_parts_of, parts, count, source.elements, made);
}

/// A row of the hash is a plane if the tensor is 4-D and its planes are large enough; otherwise it
/// has as many words as there are keys.
HashRows rows_of(const FingerprintSource& source) {
  const Shape& shape = source.shape;
  const bool planes = shape.rank() == 4 && shape.elements(2, 4) >= kSmallPlane;
  HashRows rows{};
  rows.plain = !source.channels_last;
  rows.elements = source.elements;
  rows.first = source.first;
  rows.columns = planes                                      ? shape.elements(2, 4)
                 : size_of(source.shown) == sizeof(uint64_t) ? kHashKeys / 2
                                                             : kHashKeys;
  rows.by_columns = Divider(rows.columns);
  if (source.channels_last)
    for (const int axis : {0, 2, 3, 1}) rows.order.add(shape[axis], {stride_of(shape, axis)});
  return rows;
}

}  // namespace

size_t fingerprint_workspace() { return kMostParts * sizeof(Fingerprint); }

void clear_fingerprints(Fingerprint* made, int64_t count, const LaunchState& state) {
  launch(state.driver, state.stream, "clear_fingerprints", shape_for(count), clear, made, count);
}

void take_fingerprint(const FingerprintSource& source, Fingerprint* made, std::byte* workspace,
                      const LaunchState& state) {
  const HashRows rows = rows_of(source);
  auto* parts = reinterpret_cast<Fingerprint*>(workspace);
  visit_dtype(source.dtype, [&]<typename T>(T) {
    // A byte of a bool tensor need not be a valid C++ bool.
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    if constexpr (sizeof(T) == sizeof(uint16_t)) {
      if (source.shown == DType::kFloat32)
        return take<Stored, float>(rows, source, made, parts, state);
    }
    take<Stored, Stored>(rows, source, made, parts, state);
  });
}

}  // namespace flow::cuda
