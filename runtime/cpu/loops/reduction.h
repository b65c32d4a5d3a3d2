// The axes of a tensor that is reduced, merged into an innermost one, kept or reduced, and loops
// outside it; reductions by any operation over them, and float32 sums: the same bits on any number
// of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// What is reduced is cut into chunks that depend on the shape alone; each is reduced by one
/// thread, and the chunks' results are joined in order.
class ReducedAxes {
 public:
  static constexpr int64_t kRowsPerChunk = 256, kElementsPerChunk = 8192;

  /// Reduces the axes that are set in `reduced`. The result has the others, in the order in which
  /// they lie in memory.
  ReducedAxes(const TensorDesc& desc, const std::vector<bool>& reduced);
  /// Those that the step's attribute `axes` lists, of that operand.
  explicit ReducedAxes(const Request& request, size_t operand = 0);

  int64_t results() const { return outer * columns; }
  /// Calls f(part, outer, first, end) for the chunks of all outer loops, in pieces that are work
  /// enough for a thread: part outer * chunks + k is chunk k, what is reduced in [first, end).
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
  /// How many elements go into one result.
  int64_t reduced_elements() const { return run * runs; }
  /// Is each result that of one row of adjacent elements, of one chunk, row after row?
  bool of_rows() const { return run > 1 && runs == 1 && chunks == 1; }
  /// REQUIRES: of_rows(). Calls f(first, end) for pieces of the rows.
  template <typename F>
  void for_row_pieces(int threads, F f) const {
    for_pieces(threads, outer, std::max<int64_t>(1, kElementsPerChunk / run), f);
  }

  /// Where the elements of outer loop i begin; and, from there, those of a run, or a row.
  int64_t kept_offset(int64_t i) const { return offset_of(kept_, i); }
  int64_t reduced_offset(int64_t i) const { return offset_of(reduced_, i); }

  /// Calls f(first row's offset, rows, stride between them) for rows [first, end). Innermost kept.
  template <typename F>
  void for_rows(int64_t first, int64_t end, F f) const {
    const Loop inner = reduced_.empty() ? Loop{1, 0} : reduced_.back();
    while (first < end) {
      const int64_t rows = std::min(end - first, inner.extent - first % inner.extent);
      f(reduced_offset(first), rows, inner.stride);
      first += rows;
    }
  }

  /// Calls f(offset, count) for the adjacent parts of elements [first, end). Innermost reduced.
  template <typename F>
  void for_runs(int64_t first, int64_t end, F f) const {
    if (runs == 1) return f(first, end - first);
    while (first < end) {
      const int64_t begin = first % run, count = std::min(end - first, run - begin);
      f(reduced_offset(first / run) + begin, count);
      first += count;
    }
  }

  int64_t outer = 1;    // kept loops outside the innermost axis: their product
  int64_t columns = 1;  // the innermost axis where it is kept, else 1
  int64_t run = 1;      // the innermost axis where it is reduced, else 1
  int64_t runs = 1;     // reduced loops outside it: their product
  int64_t chunk = 1;    // of one result: rows where columns are kept, else elements
  int64_t chunks = 1;

 private:
  struct Loop {
    int64_t extent, stride;
  };
  static int64_t offset_of(const std::vector<Loop>& loops, int64_t index);

  std::vector<Loop> kept_;     // outermost first
  std::vector<Loop> reduced_;  // likewise
};

// Reducer is an operation: Sum (what is carried along), first() (of nothing), term(x, result) of an
// element, join(sum, sum), and last(sum, result), the result of that number.

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

/// Bytes of workspace for reduce_axes.
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

/// Chunks are summed in blocks of few elements, and the chunks' sums are added in order, in
/// float64.
class Reduction {
 public:
  explicit Reduction(ReducedAxes axes) : axes_(std::move(axes)) {}

  size_t workspace() const;  // bytes
  /// out = factor * the sums of x, of floats, or of bfloat16 as its bits. REQUIRES: x and out do
  /// not overlap.
  template <typename T>
  void sum(int threads, const T* x, double factor, float* out, std::byte* workspace) const;

  /// How many elements go into one sum.
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
