// Nested loops over the axes of tensors, passed to kernels by value: from the number of an element
// to where it lies in each of N tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "runtime/base/host_device.h"
#include "runtime/base/shape.h"
#include "runtime/cuda/loops/divider.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Offsets in elements, one for each tensor.
template <int N>
struct Offsets {
  int64_t of[N];
};

/// Outermost first, at least one axis. A stride of 0 repeats a tensor along an axis.
template <int N>
struct Loops {
  int rank = 1;
  int64_t extents[plan::kMaxRank] = {1};
  int64_t strides[N][plan::kMaxRank] = {};
  Divider dividers[plan::kMaxRank];  // by the extents
  bool narrow = true;                // 31 bits hold all numbers and offsets

  /// Adds an axis inside all others; one with that before it where all tensors go on evenly.
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
  /// No offset is farther from 0.
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

/// The distance in elements between neighbours along `axis` of a tensor in C order.
inline int64_t stride_of(const Shape& shape, int axis) {
  return shape.elements(axis + 1, shape.rank());
}

/// Loops over `out` with operands of these shapes, which broadcast to it as NumPy's do.
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
