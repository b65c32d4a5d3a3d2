// Copies elements between arrays with different strides, which is the common part of transposing,
// slicing, joining and repeating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// Nested loops that read and write one element each, in the memory order of the result. Rows that
/// are contiguous on both sides are copied whole, and two axes that change places are copied by
/// blocks.
class StridedCopy {
 public:
  /// Strides are in elements. `from` may be negative, and 0 repeats an element; `to` is positive.
  struct Axis {
    int64_t extent, from, to;
  };

  /// Copies elements of `element` bytes (1, 2, 4 or 8). The offsets are those of the first
  /// elements. REQUIRES: No two elements are written to the same place.
  StridedCopy(size_t element, std::vector<Axis> axes, int64_t from_offset, int64_t to_offset);

  /// Allocates nothing. The pieces that threads share depend only on the extents.
  void run(int threads, const std::byte* from, std::byte* to) const;

 private:
  void find_order();
  template <typename T>
  void run_typed(int threads, const T* from, T* to) const;
  template <typename T>
  void copy_rows(int threads, const T* from, T* to) const;
  template <typename T>
  void transpose_tiles(int threads, const T* from, T* to) const;

  size_t element_;
  int64_t from_offset_, to_offset_;
  std::vector<Axis> outer_;  // outermost first
  Axis columns_{1, 1, 1};    // the innermost axis of the result
  Axis across_{1, 1, 1};     // if `tiled_`, the innermost axis of the operand
  bool tiled_ = false;
  int64_t rows_ = 1;  // the product of the outer extents
};

/// Returns the loops over all axes of an array with the strides `from` and `to`.
std::vector<StridedCopy::Axis> axes_of(const Shape& shape, const std::vector<int64_t>& from,
                                       const std::vector<int64_t>& to);

/// Returns a kernel that is a single strided copy of operand 0, read from element `from_offset` on.
inline Kernel copying(const Request& request, std::vector<StridedCopy::Axis> axes,
                      int64_t from_offset) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, copy = StridedCopy(size_of(request.inputs[0].dtype),
                                                                 std::move(axes), from_offset, 0)](
                      const Buffers& buffers, const CallState&) {
    copy.run(threads, buffers.inputs[0], buffers.outputs[0]);
  };
  return kernel;
}

}  // namespace flow::cpu
