// Copies between arrays whose elements lie at different distances: what transposing, slicing,
// joining and repeating have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// Nested loops that read and write an element each, in the order in which the results lie. Rows
/// that lie alike on both sides are copied whole, two axes that change places by blocks.
class StridedCopy {
 public:
  /// Distances in elements; from: 0 repeats, and may be negative. to: positive.
  struct Axis {
    int64_t extent, from, to;
  };

  /// Elements of `element` bytes (1, 2, 4 or 8). The offsets are those of the first elements. No
  /// two elements are written to one place.
  StridedCopy(size_t element, std::vector<Axis> axes, int64_t from_offset, int64_t to_offset);

  /// Allocates nothing. The pieces that threads share depend on the extents alone.
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
  Axis columns_{1, 1, 1};    // the innermost of the result
  Axis across_{1, 1, 1};     // where `tiled_`, the innermost of the operand
  bool tiled_ = false;
  int64_t rows_ = 1;  // product of the outer extents
};

/// Loops over all axes of an array: distances of `from` and of `to` along them.
std::vector<StridedCopy::Axis> axes_of(const Shape& shape, const std::vector<int64_t>& from,
                                       const std::vector<int64_t>& to);

/// A kernel that is one strided copy of operand 0, read from element `from_offset` on.
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
