// cumsum: cumulative sums along an axis, from one end to the other, so that the order of additions
// depends on nothing else. Floats are summed in double; integers wrap around.
#include <algorithm>
#include <type_traits>

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kMostColumns = 32;  // next to each other

/// Sums of `count` columns next to each other, whose n elements lie `step` apart. May be in place.
template <typename T>
[[gnu::always_inline]] inline void sum_columns(const T* x, int64_t n, int64_t step, int64_t count,
                                               bool exclusive, T* y) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Sum sums[kMostColumns] = {};
  for (int64_t k = 0; k < n; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const Sum before = sums[i];
      sums[i] += static_cast<Sum>(x[k * step + i]);
      y[k * step + i] = static_cast<T>(exclusive ? before : sums[i]);
    }
  }
}

Kernel prepare_cumsum(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  const int64_t n = x[axis], inner = x.elements(axis + 1, x.rank());
  const bool exclusive = request.step.attributes.get<bool>("exclusive");
  const bool reverse = request.step.attributes.get<bool>("reverse");
  const int64_t first_row = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
  const int64_t width = std::min(inner, kMostColumns), across = ceil_div(inner, width);
  Kernel kernel;
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads, blocks = x.elements(0, axis) * across](
                        const Buffers& buffers, const CallState&) {
      for_pieces(threads, blocks, std::max<int64_t>(1, kPiece / (n * width)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t block = begin; block < end; ++block) {
                     const int64_t column = block % across * width;
                     const int64_t at = block / across * n * inner + first_row + column;
                     const T* from = input<T>(buffers, 0) + at;
                     T* to = output<T>(buffers, 0) + at;
                     if (inner == 1)
                       sum_columns(from, n, step, 1, exclusive, to);
                     else
                       sum_columns(from, n, step, std::min(width, inner - column), exclusive, to);
                   }
                 });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cumsum() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "cumsum", .prepare = prepare_cumsum, .float64 = prepare_cumsum},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
