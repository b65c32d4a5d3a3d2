// Kernels of softmax and log_softmax along an axis, and of their gradients. Rows along the last
// axis are contiguous and are computed one by one. Rows along other axes are interleaved and are
// computed many at a time, with sums in double; if few of them are interleaved, they are first
// copied to contiguous rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/core/along_axis.h"
#include "ops/softmax/cpu_row.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

FLOW_VECTORIZED void subtract_all(const float* x, float max, float log_sum, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - log_sum;
}

/// Computes y = exp(x - shift) and returns the sum of y.
FLOW_VECTORIZED double exp_and_sum(const float* x, float shift, float* y, int64_t n) {
  double total = 0;
  for (int64_t first = 0; first < n; first += kSumBlock) {
    const int64_t block = std::min(n - first, kSumBlock);
    const float* from = x + first;
    float* to = y + first;
#pragma omp simd
    for (int64_t i = 0; i < block; ++i) to[i] = math::exp_of_nonpositive(from[i] - shift);
    total += static_cast<double>(sum_of_terms<float>(block, [=](int64_t i) { return to[i]; }));
  }
  return total;
}

/// Does the same with the whole sum in double.
FLOW_VECTORIZED double exp_and_wide_sum(const float* x, float shift, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp_of_nonpositive(x[i] - shift);
  return sum_of_terms<double>(n, [=](int64_t i) { return static_cast<double>(y[i]); });
}

/// y = softmax(x), with the maximum of x, and the sum of e^(x - max) that `exp_and_add` returned.
struct MaxAndSum {
  float max;
  double sum;
};
using ExpAndAdd = double (*)(const float* x, float shift, float* y, int64_t n);

MaxAndSum softmax_with(ExpAndAdd exp_and_add, const float* x, float* y, int64_t n) {
  const float max = largest_of(x, n);
  const double sum = exp_and_add(x, max, y, n);
  scale_to(y, static_cast<float>(1.0 / sum), y, n);
  return {max, sum};
}

/// Calls run(x, y, n). Fewer than kShort elements are first padded to whole vectors with elements
/// whose exp is 0. A loop would compute the elements after its last whole vector one at a time, and
/// for ten elements these are all of them.
template <typename Run>
auto in_whole_vectors(const float* x, float* y, int64_t n, Run run) {
  constexpr int64_t kShort = 64, kLanes = 16;
  if (n >= kShort) return run(x, y, n);
  float padded[kShort];
  const int64_t width = round_up(n, kLanes);
  std::fill_n(padded, kShort, -std::numeric_limits<float>::infinity());
  std::copy_n(x, n, padded);
  const auto result = run(padded, padded, width);
  std::copy_n(padded, n, y);
  return result;
}

/// Computes y = log_softmax(x), and returns the maximum and the sum of e^(x - max).
MaxAndSum log_softmax_with(const float* x, float* y, int64_t n) {
  const float max = largest_of(x, n);
  // The exponentials are computed in a separate block, so y may alias x.
  double sum = 0;
  float exps[kSumBlock];
  for (int64_t first = 0; first < n; first += kSumBlock)
    sum += exp_and_sum(x + first, max, exps, std::min(kSumBlock, n - first));
  subtract_all(x, max, static_cast<float>(std::log(sum)), y, n);
  return {max, sum};
}

/// Returns ln(sum e^x) without subtracting the maximum, which is infinite.
double log_of_infinite_sum(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(math::exp(x[i]));
  return std::log(sum);
}

}  // namespace

void softmax_row(const float* x, float* y, int64_t n) {
  in_whole_vectors(x, y, n, [](const float* from, float* to, int64_t width) {
    return softmax_with(exp_and_sum, from, to, width);
  });
}

RowSum softmax_and_sum(const float* x, float* prob, int64_t n) {
  const MaxAndSum row =
      in_whole_vectors(x, prob, n, [](const float* from, float* to, int64_t width) {
        return softmax_with(exp_and_wide_sum, from, to, width);
      });
  return {row.max, std::log(row.sum)};
}

void log_softmax_row(const float* x, float* y, int64_t n) {
  in_whole_vectors(x, y, n, log_softmax_with);
}

float logsumexp_row(const float* x, int64_t n) {
  float exps[kSumBlock];
  const double result = in_whole_vectors(x, exps, n, [&](const float* from, float*, int64_t width) {
    const float max = largest_of(from, width);
    if (!std::isfinite(max)) return log_of_infinite_sum(x, n);
    double sum = 0;
    for (int64_t first = 0; first < width; first += kSumBlock)
      sum += exp_and_wide_sum(from + first, max, exps, std::min(kSumBlock, width - first));
    return std::log(sum) + static_cast<double>(max);
  });
  return static_cast<float>(result);
}

}  // namespace flow::cpu

namespace flow::cpu::fast {
namespace {

/// out = f(a, b) for rows of n floats. b is null if there is only one operand.
using RowFunction = void (*)(const float* a, const float* b, float* out, int64_t n);

/// `count` interleaved rows of n floats: element k of row i is at k * apart + i.
struct RowsBeside {
  int64_t n, apart, count;
};
constexpr int64_t kMostBeside = 64;  // rows

/// Does the same for each of the interleaved rows.
using RowsFunction = void (*)(const float* a, const float* b, float* out, const RowsBeside& rows);

constexpr int64_t kRowsTogether = 16;  // rows; their floats fill a vector, and a cache line

/// The operands, one or two of the same shape, and the result, each starting at element `at`.
struct RowOperands {
  const float *a, *b;  // b is null if there is only one operand
  float* out;

  RowOperands(const Buffers& buffers, int64_t at)
      : a(input<float>(buffers, 0) + at),
        b(buffers.inputs.size() > 1 ? input<float>(buffers, 1) + at : nullptr),
        out(output<float>(buffers, 0) + at) {}
};

/// Copies `count` rows of n elements, whose elements are `inner` apart in x, to contiguous rows.
void bring_together(const float* x, const ops::AlongAxis& shape, int64_t count, float* rows) {
  for (int64_t k = 0; k < shape.n; ++k)
    for (int64_t i = 0; i < count; ++i) rows[i * shape.n + k] = x[k * shape.inner + i];
}

void spread_out(const float* rows, const ops::AlongAxis& shape, int64_t count, float* y) {
  for (int64_t k = 0; k < shape.n; ++k)
    for (int64_t i = 0; i < count; ++i) y[k * shape.inner + i] = rows[i * shape.n + k];
}

Kernel adjacent_rows(const Request& request, const ops::AlongAxis& shape, RowFunction run) {
  return by_rows(request, shape.outer, 4 * shape.n, [=](const Piece& piece, int64_t row) {
    const RowOperands at(piece.buffers, row * shape.n);
    run(at.a, at.b, at.out, shape.n);
  });
}

Kernel rows_apart(const Request& request, const ops::AlongAxis& shape, RowFunction run) {
  const int64_t pieces = ceil_div(shape.inner, kRowsTogether), copy = kRowsTogether * shape.n;
  Kernel kernel = in_pieces(request, shape.outer * pieces, 1, [=](const Piece& piece) {
    const int64_t column = piece.first % pieces * kRowsTogether;
    const int64_t count = std::min(kRowsTogether, shape.inner - column);
    const RowOperands at(piece.buffers, shape.at(piece.first / pieces, 0, column));
    float* rows_a = reinterpret_cast<float*>(piece.buffers.workspace) + piece.worker * 3 * copy;
    float *rows_b = rows_a + copy, *made = rows_b + copy;
    bring_together(at.a, shape, count, rows_a);
    if (at.b) bring_together(at.b, shape, count, rows_b);
    for (int64_t i = 0; i < count * shape.n; i += shape.n)
      run(rows_a + i, rows_b + i, made + i, shape.n);
    spread_out(made, shape, count, at.out);
  });
  kernel.workspace = static_cast<size_t>(request.threads * 3 * copy) * sizeof(float);
  return kernel;
}

Kernel rows_beside(const Request& request, const ops::AlongAxis& shape, RowsFunction run) {
  const int64_t parts = ceil_div(shape.inner, kMostBeside);
  return by_rows(request, shape.outer * parts, shape.n * kMostBeside,
                 [=](const Piece& piece, int64_t part) {
                   const int64_t column = part % parts * kMostBeside;
                   const RowOperands at(piece.buffers, shape.at(part / parts, 0, column));
                   run(at.a, at.b, at.out,
                       {shape.n, shape.inner, std::min(kMostBeside, shape.inner - column)});
                 });
}

/// Returns a Kernel of one or two operands of the same shape that computes each row along the axis.
/// It calls `run` for each contiguous row, or `run_beside` for many interleaved rows at a time. Few
/// interleaved rows are first copied to contiguous ones.
Kernel rows_kernel(const Request& request, RowFunction run, RowsFunction run_beside) {
  const ops::AlongAxis shape(request.inputs[0].shape, request.step.attributes);
  if (shape.inner == 1) return adjacent_rows(request, shape, run);
  if (shape.inner >= kRowsTogether) return rows_beside(request, shape, run_beside);
  return rows_apart(request, shape, run);
}

/// Returns the sum of dy y.
FLOW_VECTORIZED double sum_of_products(const float* dy, const float* y, int64_t n) {
  double sum = 0;
  add_terms(n, sum, [=](int64_t i) { return dy[i] * y[i]; });
  return sum;
}

FLOW_VECTORIZED double sum_in_blocks(const float* dy, int64_t n) {
  double sum = 0;
  add_terms(n, sum, [=](int64_t i) { return dy[i]; });
  return sum;
}

/// dx = y (dy - sum(dy y))
FLOW_VECTORIZED void softmax_grad_with(const float* dy, const float* y, float sum, float* dx,
                                       int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

/// dx = dy - e^y sum(dy)
FLOW_VECTORIZED void log_softmax_grad_with(const float* dy, const float* y, float sum, float* dx,
                                           int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - math::exp_of_nonpositive(y[i]) * sum;
}

/// Calls make(i, at) for each element, where i is its row and `at` is its place.
template <typename Make>
[[gnu::always_inline]] inline void for_rows_beside(const RowsBeside& rows, Make make) {
  for (int64_t k = 0; k < rows.n; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < rows.count; ++i) make(i, k * rows.apart + i);
  }
}

/// One number for each row.
template <typename T>
using OfRows = std::array<T, kMostBeside>;

[[gnu::always_inline]] inline void find_largest(const float* x, const RowsBeside& rows,
                                                float* largest) {
  std::fill_n(largest, rows.count, -std::numeric_limits<float>::infinity());
  for_rows_beside(
      rows, [=](int64_t i, int64_t at) { largest[i] = x[at] > largest[i] ? x[at] : largest[i]; });
}

FLOW_VECTORIZED void softmax_beside(const float* x, float* y, const RowsBeside& rows) {
  OfRows<float> largest, factors;
  OfRows<double> sums{};
  find_largest(x, rows, largest.data());
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    y[at] = math::exp_of_nonpositive(x[at] - largest[i]);
    sums[i] += static_cast<double>(y[at]);
  });
  for (int64_t i = 0; i < rows.count; ++i) factors[i] = static_cast<float>(1.0 / sums[i]);
  for_rows_beside(rows, [&](int64_t i, int64_t at) { y[at] *= factors[i]; });
}

FLOW_VECTORIZED void log_softmax_beside(const float* x, float* y, const RowsBeside& rows) {
  OfRows<float> largest, log_sums;
  OfRows<double> sums{};
  find_largest(x, rows, largest.data());
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    sums[i] += static_cast<double>(math::exp_of_nonpositive(x[at] - largest[i]));
  });
  for (int64_t i = 0; i < rows.count; ++i) log_sums[i] = static_cast<float>(std::log(sums[i]));
  for_rows_beside(rows, [&](int64_t i, int64_t at) { y[at] = (x[at] - largest[i]) - log_sums[i]; });
}

FLOW_VECTORIZED void softmax_grad_beside(const float* dy, const float* y, float* dx,
                                         const RowsBeside& rows) {
  OfRows<double> sums{};
  for_rows_beside(rows,
                  [&](int64_t i, int64_t at) { sums[i] += static_cast<double>(dy[at] * y[at]); });
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    dx[at] = y[at] * (dy[at] - static_cast<float>(sums[i]));
  });
}

FLOW_VECTORIZED void log_softmax_grad_beside(const float* dy, const float* y, float* dx,
                                             const RowsBeside& rows) {
  OfRows<double> sums{};
  for_rows_beside(rows, [&](int64_t i, int64_t at) { sums[i] += static_cast<double>(dy[at]); });
  for_rows_beside(rows, [&](int64_t i, int64_t at) {
    dx[at] = dy[at] - math::exp_of_nonpositive(y[at]) * static_cast<float>(sums[i]);
  });
}

Kernel prepare_softmax(const Request& request) {
  return rows_kernel(
      request, [](const float* x, const float*, float* y, int64_t n) { softmax_row(x, y, n); },
      [](const float* x, const float*, float* y, const RowsBeside& rows) {
        softmax_beside(x, y, rows);
      });
}

Kernel prepare_softmax_grad(const Request& request) {
  return rows_kernel(
      request,
      [](const float* dy, const float* y, float* dx, int64_t n) {
        softmax_grad_with(dy, y, static_cast<float>(sum_of_products(dy, y, n)), dx, n);
      },
      softmax_grad_beside);
}

Kernel prepare_log_softmax(const Request& request) {
  return rows_kernel(
      request, [](const float* x, const float*, float* y, int64_t n) { log_softmax_row(x, y, n); },
      [](const float* x, const float*, float* y, const RowsBeside& rows) {
        log_softmax_beside(x, y, rows);
      });
}

Kernel prepare_log_softmax_grad(const Request& request) {
  return rows_kernel(
      request,
      [](const float* dy, const float* y, float* dx, int64_t n) {
        log_softmax_grad_with(dy, y, static_cast<float>(sum_in_blocks(dy, n)), dx, n);
      },
      log_softmax_grad_beside);
}

}  // namespace

std::span<const KernelEntry> softmax() {
  static constexpr KernelEntry kKernels[] = {
      {"softmax", prepare_softmax},
      {"softmax_grad", prepare_softmax_grad},
      {"log_softmax", prepare_log_softmax},
      {"log_softmax_grad", prepare_log_softmax_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
