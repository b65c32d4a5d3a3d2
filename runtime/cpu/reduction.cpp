// Sums: axes merged into an innermost one, kept or reduced, and loops outside it.
#include "runtime/cpu/reduction.h"

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/features.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu {
namespace {

constexpr int64_t kRowsPerChunk = 256;
constexpr int64_t kElementsPerChunk = 8192;
constexpr int64_t kColumnsPerPiece = 4096;

/// sums[k] += the sum of `rows` rows of x, which lie `stride` apart. Four at a time, in pairs.
FLOW_VECTORISED void add_rows(const float* x, int64_t rows, int64_t stride, int64_t columns,
                              float* sums) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float *x0 = x + row * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k) sums[k] += (x0[k] + x1[k]) + (x2[k] + x3[k]);
  }
  for (; row < rows; ++row) {
    const float* x0 = x + row * stride;
#pragma omp simd
    for (int64_t k = 0; k < columns; ++k) sums[k] += x0[k];
  }
}

/// The sum of n adjacent floats: 64 running sums, each over at most 64 elements, then float64.
FLOW_VECTORISED double sum_run(const float* x, int64_t n) {
  constexpr int64_t kSums = 64, kBlock = 64 * kSums;
  double total = 0;
  int64_t i = 0;
  while (i + kSums <= n) {
    float sums[kSums] = {};
    for (const int64_t end = std::min(n, i + kBlock); i + kSums <= end; i += kSums) {
#pragma omp simd
      for (int64_t k = 0; k < kSums; ++k) sums[k] += x[i + k];
    }
    for (const float sum : sums) total += static_cast<double>(sum);
  }
  for (; i < n; ++i) total += static_cast<double>(x[i]);
  return total;
}

}  // namespace

Reduction::Reduction(const TensorDesc& desc, const std::vector<bool>& reduced) {
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
    (axes.back().reduced ? run_ : columns_) = axes.back().extent;
    axes.pop_back();
  }
  for (const Axis& axis : axes) {
    (axis.reduced ? reduced_ : kept_).push_back({axis.extent, axis.stride});
    (axis.reduced ? runs_ : outer_) *= axis.extent;
  }
  chunk_ = run_ > 1 ? kElementsPerChunk : kRowsPerChunk;
  chunks_ = pieces_of(reduced_elements(), chunk_);
}

int64_t Reduction::offset_of(const std::vector<Loop>& loops, int64_t index) const {
  int64_t offset = 0;
  for (size_t i = loops.size(); i-- > 0;) {
    offset += index % loops[i].extent * loops[i].stride;
    index /= loops[i].extent;
  }
  return offset;
}

/// Rows [first, end) of those that are added up, all columns.
void Reduction::sum_rows(const float* x, int64_t first, int64_t end, float* sums) const {
  std::fill_n(sums, columns_, 0.0f);
  const Loop inner = reduced_.empty() ? Loop{1, 0} : reduced_.back();
  while (first < end) {
    const int64_t rows = std::min(end - first, inner.extent - first % inner.extent);
    const float* from = x + offset_of(reduced_, first);
    for (int64_t k = 0; k < columns_; k += kColumnsPerPiece)
      add_rows(from + k, rows, inner.stride, std::min(kColumnsPerPiece, columns_ - k), sums + k);
    first += rows;
  }
}

/// Elements [first, end) of those that go into one sum.
double Reduction::sum_runs(const float* x, int64_t first, int64_t end) const {
  double total = 0;
  while (first < end) {
    const int64_t run = first / run_, begin = first % run_;
    const int64_t n = std::min(end - first, run_ - begin);
    total += sum_run(x + offset_of(reduced_, run) + begin, n);
    first += n;
  }
  return total;
}

size_t Reduction::workspace() const {
  const auto sums = static_cast<size_t>(outer_ * chunks_);
  return run_ > 1 ? sums * sizeof(double) : sums * static_cast<size_t>(columns_) * sizeof(float);
}

void Reduction::sum(int threads, const float* x, double factor, float* out,
                    std::byte* workspace) const {
  const int64_t n = reduced_elements();
  if (run_ > 1) {
    double* sums = reinterpret_cast<double*>(workspace);
    parallel_for(threads, outer_ * chunks_, [&](int64_t i, int) {
      const int64_t first = i % chunks_ * chunk_;
      sums[i] = sum_runs(x + offset_of(kept_, i / chunks_), first, std::min(n, first + chunk_));
    });
    for (int64_t i = 0; i < outer_; ++i) {
      double total = 0;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) total += sums[i * chunks_ + chunk];
      out[i] = static_cast<float>(factor * total);
    }
    return;
  }
  float* sums = reinterpret_cast<float*>(workspace);
  parallel_for(threads, outer_ * chunks_, [&](int64_t i, int) {
    const int64_t first = i % chunks_ * chunk_;
    sum_rows(x + offset_of(kept_, i / chunks_), first, std::min(n, first + chunk_),
             sums + i * columns_);
  });
  for_pieces(threads, outer_ * columns_, kColumnsPerPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* column = sums + i / columns_ * chunks_ * columns_ + i % columns_;
      double total = 0;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk)
        total += static_cast<double>(column[chunk * columns_]);
      out[i] = static_cast<float>(factor * total);
    }
  });
}

}  // namespace flow::cpu
