// Nested loops over the axes of tensors, which kernels receive by value. They map the number of an
// element to its offset in each of N tensors. Kernels divide by numbers that are known before the
// launch, and do so by multiplying.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "runtime/base/array.h"
#include "runtime/base/host_device.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Numbers below this bound are divided by a 32-bit multiplication.
inline constexpr int64_t kNarrow = int64_t{1} << 31;

template <typename Index>
struct Division {
  Index quotient, remainder;
};

/// Divides many numbers by the same divisor: n / d is n * factor / 2^shift for n < 2^31, where
/// shift = 31 + ceil(log2 d) and factor = ceil(2^shift / d), which fits in 32 bits. The factor
/// exceeds 2^shift / d by less than 1. The error of the quotient is therefore below n / 2^shift < 1
/// / d, which is too small to reach the next integer.
class Divider {
 public:
  Divider() = default;  // divides by 1
  /// A divisor of 0 is allowed if nothing is divided.
  explicit Divider(int64_t divisor) : divisor_(divisor) {
    const bool beyond = divisor < 1 || divisor > kNarrow;  // all quotients of narrow numbers are 0
    const auto d = static_cast<uint64_t>(beyond ? 1 : divisor);
    shift_ = 31 + static_cast<uint32_t>(std::bit_width(d - 1));
    factor_ = beyond ? 0 : static_cast<uint32_t>(ceil_div(uint64_t{1} << shift_, d));
  }

  /// REQUIRES: n >= 0, and n < kNarrow if Index has 32 bits.
  template <typename Index>
  FLOW_HOST_DEVICE Division<Index> divide(Index n) const {
    Index quotient;
    if constexpr (sizeof(Index) == sizeof(uint32_t))
      quotient = static_cast<Index>(uint64_t{static_cast<uint32_t>(n)} * factor_ >> shift_);
    else
      quotient = n / divisor_;
    return {quotient, n - quotient * static_cast<Index>(divisor_)};
  }

 private:
  int64_t divisor_ = 1;
  uint32_t factor_ = uint32_t{1} << 31, shift_ = 31;
};

/// Offsets in elements, one for each tensor.
template <int N>
struct Offsets {
  int64_t of[N];
};

/// Loops from the outermost to the innermost axis; there is at least one. A stride of 0 repeats a
/// tensor along an axis.
template <int N>
struct Loops {
  int rank = 1;
  int64_t extents[plan::kMaxRank] = {1};
  int64_t strides[N][plan::kMaxRank] = {};
  Divider dividers[plan::kMaxRank];  // one for each extent
  bool narrow = true;                // true if all numbers and offsets fit in 31 bits

  /// Adds an axis inside all others. It is merged with the axis before it if every tensor continues
  /// evenly across both.
  void add(int64_t extent, const std::array<int64_t, N>& steps) {
    if (extent == 1) return;
    bool merges = true;
    for (int n = 0; n < N; ++n)
      merges &= strides[n][rank - 1] == steps[static_cast<size_t>(n)] * extent;
    const bool empty = rank == 1 && extents[0] == 1;
    if (!merges && !empty) ++rank;
    extents[rank - 1] = merges && !empty ? extents[rank - 1] * extent : extent;
    for (int n = 0; n < N; ++n) strides[n][rank - 1] = steps[static_cast<size_t>(n)];
    dividers[rank - 1] = Divider(extents[rank - 1]);
    narrow = elements() < kNarrow && reach() < kNarrow;
  }

  int64_t elements() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis) count *= extents[axis];
    return count;
  }

  FLOW_HOST_DEVICE Offsets<N> at(int64_t index) const {
    return narrow ? walk(static_cast<int32_t>(index)) : walk(index);
  }

 private:
  /// Returns an upper bound of the distance of all offsets from 0.
  int64_t reach() const {
    int64_t farthest = 0;
    for (int n = 0; n < N; ++n) {
      int64_t reach = 0;
      for (int axis = 0; axis < rank; ++axis) reach += extents[axis] * std::abs(strides[n][axis]);
      farthest = std::max(farthest, reach);
    }
    return farthest;
  }

  template <typename Index>
  FLOW_HOST_DEVICE Offsets<N> walk(Index index) const {
    Index reached[N] = {};
    for (int axis = rank - 1; axis > 0; --axis) {
      const Division<Index> own = dividers[axis].divide(index);
      for (int n = 0; n < N; ++n)
        reached[n] += own.remainder * static_cast<Index>(strides[n][axis]);
      index = own.quotient;
    }
    Offsets<N> offsets;
    for (int n = 0; n < N; ++n)
      offsets.of[n] = reached[n] + index * static_cast<Index>(strides[n][0]);
    return offsets;
  }
};

/// The distance in elements between neighbors along `axis` of a tensor in C order.
inline int64_t stride_of(const Shape& shape, int axis) {
  return shape.elements(axis + 1, shape.rank());
}

/// Returns the loops over `out` for operands of these shapes, which broadcast to it by NumPy's
/// rules.
template <int N>
Loops<N> broadcast_loops(const std::array<Shape, N>& operands, const Shape& out) {
  Loops<N> loops;
  for (int axis = 0; axis < out.rank(); ++axis) {
    std::array<int64_t, N> steps{};
    for (size_t k = 0; k < N; ++k) {
      const int own = axis - (out.rank() - operands[k].rank());
      if (own >= 0 && operands[k][own] != 1) steps[k] = stride_of(operands[k], own);
    }
    loops.add(out[axis], steps);
  }
  return loops;
}

}  // namespace flow::cuda
