// The axes of a tensor that is reduced, merged into an innermost axis, which is kept or reduced,
// and loops outside it. Also reductions by any operation over them, and float32 sums. Results are
// bit-identical for any number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// The reduced elements are cut into chunks that depend only on the shape. Each chunk is reduced by
/// one thread, and the results of the chunks are joined in order.
class ReducedAxes {
 public:
  static constexpr int64_t kRowsPerChunk = 256, kElementsPerChunk = 8192;

  /// Reduces the axes that are set in `reduced`. The result has the remaining axes in memory order.
  ReducedAxes(const TensorDesc& desc, const std::vector<bool>& reduced);
  /// Reduces the axes of the operand that the step's attribute `axes` lists.
  explicit ReducedAxes(const Request& request, size_t operand = 0);

  int64_t results() const { return outer * columns; }
  /// Calls f(part, outer, first, end) for the chunks of all outer loops, in pieces that are large
  /// enough for a thread. Part outer * chunks + k is chunk k, which contains the reduced elements
  /// [first, end).
  template <typename F>
  void for_parts(int threads, F f) const {
    const int64_t n = reduced_elements();
    const int64_t elements = std::max<int64_t>(1, std::min(chunk, n) * columns);
    const int64_t piece = std::max<int64_t>(1, kElementsPerChunk / elements);
    for_pieces(threads, outer * chunks, piece, [&](int64_t begin, int64_t behind) {
      for (int64_t part = begin; part < behind; ++part) {
        const int64_t first = part % chunks * chunk;
        f(part, part / chunks, first, std::min(n, first + chunk));
      }
    });
  }
  /// Returns the number of elements of one result.
  int64_t reduced_elements() const { return run * runs; }
  /// Returns true if each result comes from one row of adjacent elements in a single chunk, with
  /// the rows in order.
  bool of_rows() const { return run > 1 && runs == 1 && chunks == 1; }
  /// Calls f(first, end) for pieces of the rows. REQUIRES: of_rows().
  template <typename F>
  void for_row_pieces(int threads, F f) const {
    for_pieces(threads, outer, std::max<int64_t>(1, kElementsPerChunk / run), f);
  }

  /// The offset at which the elements of outer loop i begin and, relative to it, the offset of a
  /// run or a row.
  int64_t kept_offset(int64_t i) const { return offset_of(kept_, i); }
  int64_t reduced_offset(int64_t i) const { return offset_of(reduced_, i); }

  /// Calls f(first row's offset, rows, stride between them) for rows [first, end). REQUIRES: The
  /// innermost axis is kept.
  template <typename F>
  void for_rows(int64_t first, int64_t end, F f) const {
    const Loop inner = reduced_.empty() ? Loop{1, 0} : reduced_.back();
    while (first < end) {
      const int64_t rows = std::min(end - first, inner.extent - first % inner.extent);
      f(reduced_offset(first), rows, inner.stride);
      first += rows;
    }
  }

  /// Calls f(offset, count) for the adjacent parts of elements [first, end). REQUIRES: The
  /// innermost axis is reduced.
  template <typename F>
  void for_runs(int64_t first, int64_t end, F f) const {
    if (runs == 1) return f(first, end - first);
    while (first < end) {
      const int64_t begin = first % run, count = std::min(end - first, run - begin);
      f(reduced_offset(first / run) + begin, count);
      first += count;
    }
  }

  int64_t outer = 1;    // the product of the kept loops outside the innermost axis
  int64_t columns = 1;  // the innermost axis if it is kept, otherwise 1
  int64_t run = 1;      // the innermost axis if it is reduced, otherwise 1
  int64_t runs = 1;     // the product of the reduced loops outside it
  int64_t chunk = 1;    // size for one result: in rows if columns are kept, otherwise in elements
  int64_t chunks = 1;

 private:
  struct Loop {
    int64_t extent, stride;
  };
  static int64_t offset_of(const std::vector<Loop>& loops, int64_t index);

  std::vector<Loop> kept_;     // outermost first
  std::vector<Loop> reduced_;  // outermost first
};

// A Reducer is an operation with these members: Sum, the type of the accumulator; first(), the
// accumulator of no elements; term(x, result), the accumulator of one element; join(sum, sum); and
// last(sum, result), the result with that number.

template <typename Reducer, typename T>
typename Reducer::Sum reduce_runs(const Reducer& reducer, const ReducedAxes& axes, const T* from,
                                  int64_t first, int64_t end, int64_t result) {
  using Sum = typename Reducer::Sum;
  constexpr int64_t kLanes = 16;
  Sum lanes[kLanes];
  const int64_t used = end - first < kLanes ? 1 : kLanes;
  std::fill_n(lanes, used, reducer.first());
  axes.for_runs(first, end, [&](int64_t offset, int64_t count) {
    const T* x = from + offset;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
      for (int64_t k = 0; k < kLanes; ++k)
        lanes[k] = reducer.join(lanes[k], reducer.term(x[i + k], result));
    }
    for (; i < count; ++i) lanes[0] = reducer.join(lanes[0], reducer.term(x[i], result));
  });
  for (int64_t k = 1; k < used; ++k) lanes[0] = reducer.join(lanes[0], lanes[k]);
  return lanes[0];
}

template <typename Reducer, typename T>
void reduce_rows(const Reducer& reducer, const ReducedAxes& axes, const T* from, int64_t first,
                 int64_t end, int64_t result, typename Reducer::Sum* sums) {
  std::fill_n(sums, axes.columns, reducer.first());
  axes.for_rows(first, end, [&](int64_t offset, int64_t rows, int64_t stride) {
    for (int64_t row = 0; row < rows; ++row) {
      const T* x = from + offset + row * stride;
#pragma omp simd
      for (int64_t k = 0; k < axes.columns; ++k)
        sums[k] = reducer.join(sums[k], reducer.term(x[k], result + k));
    }
  });
}

/// Returns the bytes of workspace that reduce_axes needs.
template <typename Reducer>
size_t reduce_workspace(const ReducedAxes& axes) {
  return static_cast<size_t>(axes.results() * axes.chunks) * sizeof(typename Reducer::Sum);
}

/// out = the reductions of x. REQUIRES: x and out do not overlap.
template <typename Reducer, typename T>
void reduce_axes(const Reducer& reducer, const ReducedAxes& axes, int threads, const T* x, T* out,
                 std::byte* workspace) {
  auto* sums = reinterpret_cast<typename Reducer::Sum*>(workspace);
  axes.for_parts(threads, [&](int64_t part, int64_t outer, int64_t first, int64_t end) {
    const int64_t result = outer * axes.columns;
    const T* from = x + axes.kept_offset(outer);
    if (axes.run > 1)
      sums[part] = reduce_runs(reducer, axes, from, first, end, result);
    else
      reduce_rows(reducer, axes, from, first, end, result, sums + part * axes.columns);
  });
  for_pieces(threads, axes.results(), kPiece / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto* part = sums + i / axes.columns * axes.chunks * axes.columns + i % axes.columns;
      auto sum = *part;
      for (int64_t k = 1; k < axes.chunks; ++k) sum = reducer.join(sum, part[k * axes.columns]);
      out[i] = reducer.last(sum, i);
    }
  });
}

/// Sums each chunk in blocks of few elements, and adds the sums of the chunks in order in float64.
class Reduction {
 public:
  explicit Reduction(ReducedAxes axes) : axes_(std::move(axes)) {}

  size_t workspace() const;  // bytes
  /// out = factor * the sums of x, which are floats, or bfloat16 represented by its bits. REQUIRES:
  /// x and out do not overlap.
  template <typename T>
  void sum(int threads, const T* x, double factor, float* out, std::byte* workspace) const;

  /// Returns the number of elements of one sum.
  int64_t reduced_elements() const { return axes_.reduced_elements(); }

 private:
  template <typename T>
  void sum_rows(const T* x, int64_t first, int64_t end, float* sums) const;
  template <typename T>
  double sum_runs(const T* x, int64_t first, int64_t end) const;
  template <typename Sum>
  void add_chunks(int threads, const Sum* sums, double factor, float* out) const;

  ReducedAxes axes_;
};

}  // namespace flow::cpu
