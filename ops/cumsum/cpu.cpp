// cumsum and cumprod: cumulative sums and products along an axis, computed sequentially so that the
// order is fixed. Floats are added and multiplied in double; integers wrap around.
#include <algorithm>

#include "ops/cumsum/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kColumnsAtOnce = 32;  // largest number of columns scanned together

/// Scans `count` adjacent columns of n elements, which are `step` apart. The result may overwrite
/// x.
template <typename Op, typename T>
[[gnu::always_inline]] inline void scan_columns(const T* x, int64_t n, int64_t step, int64_t count,
                                                bool exclusive, T* y) {
  using Value = ops::ScanValue<T>;
  Value all[kColumnsAtOnce];
  std::fill_n(all, count, static_cast<Value>(Op::kFirst));
  for (int64_t k = 0; k < n; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const Value before = all[i];
      all[i] = Op{}(before, static_cast<Value>(x[k * step + i]));
      y[k * step + i] = static_cast<T>(exclusive ? before : all[i]);
    }
  }
}

/// The columns of a step, in blocks of adjacent columns.
struct Columns : ops::Scan {
  explicit Columns(const Request& request)
      : Scan(request.inputs[0].shape, request.step.attributes),
        width(std::min(inner, kColumnsAtOnce)),
        across(ceil_div(inner, width)) {}
  int64_t blocks() const { return outer * across; }
  int64_t columns_at(int64_t block) const {
    return std::min(width, inner - block % across * width);
  }
  /// Returns the index of the element of a block at which the scan starts.
  int64_t start(int64_t block) const {
    return at(block / across, 0, block % across * width) + first();
  }

  int64_t width, across;
};

template <typename Op>
Kernel prepare_scan(const Request& request) {
  const Columns scan(request);
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return by_rows(
        request, scan.blocks(), scan.n * scan.width, [=](const Piece& piece, int64_t block) {
          const T* from = input<T>(piece.buffers, 0) + scan.start(block);
          T* to = output<T>(piece.buffers, 0) + scan.start(block);
          if (scan.inner == 1)
            scan_columns<Op>(from, scan.n, scan.step(), 1, scan.exclusive, to);
          else
            scan_columns<Op>(from, scan.n, scan.step(), scan.columns_at(block), scan.exclusive, to);
        });
  });
}

/// Computes dx[j] = p[j] s[j], where p[j] is the product of the elements before x[j], and s[j] =
/// dy[j] + x[j+1] s[j+1]. For exclusive products, s[j] = dy[j+1] + x[j+1] s[j+1].
template <typename T>
void differentiate_column(const T* dy, const T* x, int64_t n, int64_t step, bool exclusive, T* dx,
                          double* before) {
  double product = 1;
  for (int64_t j = 0; j < n; ++j) {
    before[j] = product;
    product *= static_cast<double>(x[j * step]);
  }
  double sum = exclusive ? 0.0 : static_cast<double>(dy[(n - 1) * step]);
  for (int64_t j = n - 1; j >= 0; --j) {
    dx[j * step] = static_cast<T>(before[j] * sum);
    if (j == 0) break;
    const int64_t read = exclusive ? j : j - 1;
    sum = static_cast<double>(dy[read * step]) + static_cast<double>(x[j * step]) * sum;
  }
}

Kernel prepare_cumprod_grad(const Request& request) {
  const Columns scan(request);
  Kernel kernel = visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return in_pieces(request, scan.blocks(), 1, [=](const Piece& piece) {
      const Buffers& buffers = piece.buffers;
      auto* before = reinterpret_cast<double*>(buffers.workspace) + piece.worker * scan.n;
      for (int64_t i = 0; i < scan.columns_at(piece.first); ++i) {
        const int64_t at = scan.start(piece.first) + i;
        differentiate_column(input<T>(buffers, 0) + at, input<T>(buffers, 1) + at, scan.n,
                             scan.step(), scan.exclusive, output<T>(buffers, 0) + at, before);
      }
    });
  });
  kernel.workspace = static_cast<size_t>(request.threads * scan.n) * sizeof(double);
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cumsum() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "cumsum",
       .prepare = prepare_scan<ops::ScanSum>,
       .float64 = prepare_scan<ops::ScanSum>},
      {.op = "cumprod",
       .prepare = prepare_scan<ops::ScanProduct>,
       .float64 = prepare_scan<ops::ScanProduct>},
      {.op = "cumprod_grad", .prepare = prepare_cumprod_grad, .float64 = prepare_cumprod_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
