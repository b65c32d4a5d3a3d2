// Merges neighboring axes of a reduction that are both kept or both reduced, and computes sums by
// rows or by runs.
#include "runtime/cpu/loops/reduction.h"

#include <cstring>

#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

std::vector<bool> listed_axes(const Request& request, const TensorDesc& desc) {
  std::vector<bool> reduced(static_cast<size_t>(desc.shape.rank()), false);
  for (int64_t axis : request.step.attributes.get<std::vector<int64_t>>("axes"))
    reduced[static_cast<size_t>(axis)] = true;
  return reduced;
}

constexpr int64_t kColumnsPerPiece = 4096;

/// sums[k] += the sum of `rows` rows of x, which are `stride` apart. Four rows are added at a time,
/// in pairs.
template <typename T>
[[gnu::always_inline]] inline void add_any_rows(const T* x, int64_t rows, int64_t stride,
                                                int64_t columns, float* sums) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T *x0 = x + row * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k)
      sums[k] += (wide(x0[k]) + wide(x1[k])) + (wide(x2[k]) + wide(x3[k]));
  }
  for (; row < rows; ++row) {
    const T* x0 = x + row * stride;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k) sums[k] += wide(x0[k]);
  }
}

using Lanes = float __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;

[[gnu::always_inline]] inline void load(const float* x, Lanes& lanes) {
  std::memcpy(&lanes, x, sizeof lanes);
}

/// Loads bfloat16 elements, which are the upper halves of floats.
[[gnu::always_inline]] inline void load(const uint16_t* x, Lanes& lanes) {
  using Halves = uint16_t __attribute__((vector_size(32)));
  using Words = uint32_t __attribute__((vector_size(64)));
  Halves halves;
  std::memcpy(&halves, x, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&lanes, &words, sizeof lanes);
}

/// Returns the sum of the lanes. It adds eight parts independently, because each addition waits for
/// the previous one.
[[gnu::always_inline]] inline double sum_of_lanes(const Lanes& lanes) {
  double parts[8];
  for (int64_t k = 0; k < 8; ++k)
    parts[k] = static_cast<double>(lanes[k]) + static_cast<double>(lanes[k + 8]);
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
         ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

/// Returns the sum of n adjacent floats. It is computed in 64 running sums of at most 64 elements
/// each; then in 16 sums, each of four running sums or of remaining elements; and then in float64.
template <typename T>
[[gnu::always_inline]] inline double sum_any_run(const T* x, int64_t n) {
  constexpr int64_t kSums = 4, kStep = kSums * kLanes, kBlock = 64 * kStep;
  double total = 0;
  int64_t i = 0;
  while (i + kStep <= n) {
    Lanes sums[kSums] = {};
    for (const int64_t end = std::min(n, i + kBlock); i + kStep <= end; i += kStep)
      for (int64_t k = 0; k < kSums; ++k) {
        Lanes lanes;
        load(x + i + k * kLanes, lanes);
        sums[k] += lanes;
      }
    total += sum_of_lanes((sums[0] + sums[2]) + (sums[1] + sums[3]));
  }
  if (i + kLanes <= n) {
    Lanes sum = {};
    for (; i + kLanes <= n; i += kLanes) {
      Lanes lanes;
      load(x + i, lanes);
      sum += lanes;
    }
    total += sum_of_lanes(sum);
  }
  double parts[4] = {total, 0, 0, 0};
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) parts[k] += static_cast<double>(wide(x[i + k]));
  for (; i < n; ++i) parts[1] += static_cast<double>(wide(x[i]));
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

FLOW_VECTORIZED void add_rows(const float* x, int64_t rows, int64_t stride, int64_t columns,
                              float* sums) {
  add_any_rows(x, rows, stride, columns, sums);
}

FLOW_VECTORIZED void add_rows(const uint16_t* x, int64_t rows, int64_t stride, int64_t columns,
                              float* sums) {
  add_any_rows(x, rows, stride, columns, sums);
}

FLOW_VECTORIZED double sum_run(const float* x, int64_t n) { return sum_any_run(x, n); }

FLOW_VECTORIZED double sum_run(const uint16_t* x, int64_t n) { return sum_any_run(x, n); }

/// out = factor * the sums of rows of n elements.
template <typename T>
[[gnu::always_inline]] inline void sum_any_rows(const T* x, int64_t rows, int64_t n, double factor,
                                                float* out) {
  for (int64_t row = 0; row < rows; ++row)
    out[row] = static_cast<float>(factor * sum_any_run(x + row * n, n));
}

FLOW_VECTORIZED void sum_each_row(const float* x, int64_t rows, int64_t n, double factor,
                                  float* out) {
  sum_any_rows(x, rows, n, factor, out);
}

FLOW_VECTORIZED void sum_each_row(const uint16_t* x, int64_t rows, int64_t n, double factor,
                                  float* out) {
  sum_any_rows(x, rows, n, factor, out);
}

}  // namespace

ReducedAxes::ReducedAxes(const Request& request, size_t operand)
    : ReducedAxes(request.inputs[operand], listed_axes(request, request.inputs[operand])) {}

ReducedAxes::ReducedAxes(const TensorDesc& desc, const std::vector<bool>& reduced) {
  struct Axis {
    int64_t extent, stride;
    bool reduced;
  };
  std::vector<Axis> axes;
  const std::vector<int64_t> strides = strides_of(desc);
  for (int logical : memory_order(desc)) {
    const auto i = static_cast<size_t>(logical);
    const Axis axis{desc.shape[logical], strides[i], reduced[i]};
    if (axis.extent == 1) continue;
    if (!axes.empty() && axes.back().reduced == axis.reduced)
      axes.back() = {axes.back().extent * axis.extent, axis.stride, axis.reduced};
    else
      axes.push_back(axis);
  }
  if (!axes.empty()) {
    (axes.back().reduced ? run : columns) = axes.back().extent;
    axes.pop_back();
  }
  for (const Axis& axis : axes) {
    (axis.reduced ? reduced_ : kept_).push_back({axis.extent, axis.stride});
    (axis.reduced ? runs : outer) *= axis.extent;
  }
  chunk = run > 1 ? kElementsPerChunk : kRowsPerChunk;
  chunks = ceil_div(reduced_elements(), chunk);
}

int64_t ReducedAxes::offset_of(const std::vector<Loop>& loops, int64_t index) {
  if (loops.empty()) return 0;
  int64_t offset = 0;
  for (size_t i = loops.size(); i-- > 1;) {
    offset += index % loops[i].extent * loops[i].stride;
    index /= loops[i].extent;
  }
  return offset + index * loops[0].stride;
}

/// Sums rows [first, end) of the reduced rows, for all columns.
template <typename T>
void Reduction::sum_rows(const T* x, int64_t first, int64_t end, float* sums) const {
  std::fill_n(sums, axes_.columns, 0.0f);
  axes_.for_rows(first, end, [&](int64_t offset, int64_t rows, int64_t stride) {
    for (int64_t k = 0; k < axes_.columns; k += kColumnsPerPiece)
      add_rows(x + offset + k, rows, stride, std::min(kColumnsPerPiece, axes_.columns - k),
               sums + k);
  });
}

/// Sums the elements [first, end) of those that belong to one sum.
template <typename T>
double Reduction::sum_runs(const T* x, int64_t first, int64_t end) const {
  double total = 0;
  axes_.for_runs(first, end,
                 [&](int64_t offset, int64_t count) { total += sum_run(x + offset, count); });
  return total;
}

size_t Reduction::workspace() const {
  const auto sums = static_cast<size_t>(axes_.outer * axes_.chunks);
  return axes_.run > 1 ? sums * sizeof(double)
                       : sums * static_cast<size_t>(axes_.columns) * sizeof(float);
}

template <typename T>
void Reduction::sum(int threads, const T* x, double factor, float* out,
                    std::byte* workspace) const {
  if (axes_.of_rows())
    return axes_.for_row_pieces(threads, [&](int64_t first, int64_t end) {
      sum_each_row(x + first * axes_.run, end - first, axes_.run, factor, out + first);
    });
  if (axes_.run > 1) {
    double* sums = reinterpret_cast<double*>(workspace);
    axes_.for_parts(threads, [&](int64_t part, int64_t outer, int64_t first, int64_t end) {
      sums[part] = sum_runs(x + axes_.kept_offset(outer), first, end);
    });
    return add_chunks(threads, sums, factor, out);
  }
  float* sums = reinterpret_cast<float*>(workspace);
  axes_.for_parts(threads, [&](int64_t part, int64_t outer, int64_t first, int64_t end) {
    sum_rows(x + axes_.kept_offset(outer), first, end, sums + part * axes_.columns);
  });
  add_chunks(threads, sums, factor, out);
}

/// out = factor * the sums of the chunks' sums.
template <typename Sum>
void Reduction::add_chunks(int threads, const Sum* sums, double factor, float* out) const {
  for_pieces(threads, axes_.results(), kColumnsPerPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Sum* part = sums + i / axes_.columns * axes_.chunks * axes_.columns + i % axes_.columns;
      double total = 0;
      for (int64_t chunk = 0; chunk < axes_.chunks; ++chunk)
        total += static_cast<double>(part[chunk * axes_.columns]);
      out[i] = static_cast<float>(factor * total);
    }
  });
}

template void Reduction::sum(int, const float*, double, float*, std::byte*) const;
template void Reduction::sum(int, const uint16_t*, double, float*, std::byte*) const;

}  // namespace flow::cpu
