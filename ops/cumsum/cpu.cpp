// cumsum, cumprod: cumulative sums and products along an axis, from one end to the other, so that
// the order depends on nothing else. Floats are added and multiplied in double; integers wrap
// around.
#include <algorithm>
#include <type_traits>

#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kMostColumns = 32;  // next to each other

struct AddUp {
  static constexpr int kFirst = 0;
  template <typename T>
  [[gnu::always_inline]] static T join(T a, T b) {
    return a + b;
  }
};

struct MultiplyUp {
  static constexpr int kFirst = 1;
  template <typename T>
  [[gnu::always_inline]] static T join(T a, T b) {
    return a * b;
  }
};

/// `count` columns next to each other, whose n elements lie `step` apart. May be in place.
template <typename Op, typename T>
[[gnu::always_inline]] inline void scan_columns(const T* x, int64_t n, int64_t step, int64_t count,
                                                bool exclusive, T* y) {
  using Value = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Value all[kMostColumns];
  std::fill_n(all, count, static_cast<Value>(Op::kFirst));
  for (int64_t k = 0; k < n; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const Value before = all[i];
      all[i] = Op::join(before, static_cast<Value>(x[k * step + i]));
      y[k * step + i] = static_cast<T>(exclusive ? before : all[i]);
    }
  }
}

/// The columns of a step, several next to each other at a time.
struct Columns {
  Columns(const Request& request, bool reverse) {
    const Shape& x = request.inputs[0].shape;
    const int axis = axis_of(request);
    n = x[axis], inner = x.elements(axis + 1, x.rank());
    first_row = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
    width = std::min(inner, kMostColumns), across = ceil_div(inner, width);
    blocks = x.elements(0, axis) * across;
  }
  int64_t columns_at(int64_t block) const {
    return std::min(width, inner - block % across * width);
  }
  /// Where the first element of a block lies, in the order of the scan.
  int64_t start(int64_t block) const {
    return block / across * n * inner + first_row + block % across * width;
  }
  template <typename Body>
  void each(int threads, Body body) const {
    for_pieces(threads, blocks, std::max<int64_t>(1, kPiece / (n * width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) body(block);
               });
  }

  int64_t n, inner, first_row, step, width, across, blocks;
};

template <typename Op>
Kernel prepare_scan(const Request& request) {
  const bool exclusive = request.step.attributes.get<bool>("exclusive");
  const Columns columns(request, request.step.attributes.get<bool>("reverse"));
  Kernel kernel;
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      columns.each(threads, [&](int64_t block) {
        const T* from = input<T>(buffers, 0) + columns.start(block);
        T* to = output<T>(buffers, 0) + columns.start(block);
        if (columns.inner == 1)
          scan_columns<Op>(from, columns.n, columns.step, 1, exclusive, to);
        else
          scan_columns<Op>(from, columns.n, columns.step, columns.columns_at(block), exclusive, to);
      });
    };
  });
  return kernel;
}

/// dx[j] = p[j] s[j], where p[j] is the product of what comes before x[j], and
/// s[j] = dy[j] + x[j+1] s[j+1]; of exclusive products, s[j] = dy[j+1] + x[j+1] s[j+1].
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
  const bool exclusive = request.step.attributes.get<bool>("exclusive");
  const Columns columns(request, request.step.attributes.get<bool>("reverse"));
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(request.threads * columns.n) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      auto* before = reinterpret_cast<double*>(buffers.workspace);
      parallel_for(threads, columns.blocks, [&](int64_t block, int thread) {
        for (int64_t i = 0; i < columns.columns_at(block); ++i) {
          const int64_t at = columns.start(block) + i;
          differentiate_column(input<T>(buffers, 0) + at, input<T>(buffers, 1) + at, columns.n,
                               columns.step, exclusive, output<T>(buffers, 0) + at,
                               before + thread * columns.n);
        }
      });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cumsum() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "cumsum", .prepare = prepare_scan<AddUp>, .float64 = prepare_scan<AddUp>},
      {.op = "cumprod", .prepare = prepare_scan<MultiplyUp>, .float64 = prepare_scan<MultiplyUp>},
      {.op = "cumprod_grad", .prepare = prepare_cumprod_grad, .float64 = prepare_cumprod_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
