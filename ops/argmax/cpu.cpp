// argmax and argmin: the place of the largest or smallest element along an axis, the first on ties.
// A NaN comes before any number, as in NumPy.
#include <algorithm>
#include <type_traits>

#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kBeside = 64;  // columns

/// Of the n elements of each of `count` columns beside each other, whose elements are `inner`
/// apart.
template <bool kLargest, typename T>
[[gnu::always_inline]] inline void reduce_columns(const T* x, int64_t n, int64_t inner,
                                                  int64_t count, int64_t* out) {
  T best[kBeside];
  std::copy_n(x, count, best);
  std::fill_n(out, count, int64_t{0});
  for (int64_t k = 1; k < n; ++k) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T value = x[k * inner + i];
      const bool first = precedes<kLargest>(value, best[i]);
      best[i] = first ? value : best[i];
      out[i] = first ? k : out[i];
    }
  }
}

FLOW_VECTORIZED void largest_of_columns(const float* x, int64_t n, int64_t inner, int64_t count,
                                        int64_t* out) {
  reduce_columns<true>(x, n, inner, count, out);
}

FLOW_VECTORIZED void smallest_of_columns(const float* x, int64_t n, int64_t inner, int64_t count,
                                         int64_t* out) {
  reduce_columns<false>(x, n, inner, count, out);
}

template <bool kLargest, typename T>
void places_beside(const T* x, int64_t n, int64_t inner, int64_t count, int64_t* out) {
  if constexpr (!std::is_same_v<T, float>)
    reduce_columns<kLargest>(x, n, inner, count, out);
  else if constexpr (kLargest)
    largest_of_columns(x, n, inner, count, out);
  else
    smallest_of_columns(x, n, inner, count, out);
}

/// Of n elements in a row: of many, as if they were columns beside each other, and of those the
/// first.
template <bool kLargest, typename T>
int64_t place_in_row(const T* x, int64_t n) {
  const int64_t rows = n >= 2 * kBeside ? n / kBeside : 0;
  Best<T> best{x[0], 0};
  if (rows > 0) {
    int64_t places[kBeside];
    places_beside<kLargest>(x, rows, kBeside, kBeside, places);
    for (int64_t i = 0; i < kBeside; ++i) {
      const int64_t place = places[i] * kBeside + i;
      const bool as_good = !precedes<kLargest>(best.value, x[place]);
      if (precedes<kLargest>(x[place], best.value) || (as_good && place < best.place))
        best = {x[place], place};
    }
  }
  for (int64_t k = rows * kBeside; k < n; ++k)
    if (precedes<kLargest>(x[k], best.value)) best = {x[k], k};
  return best.place;
}

/// x [outer, n, inner] -> out [outer, inner], elements [first, end) of it.
template <bool kLargest, typename T>
void places_piece(const T* x, int64_t n, int64_t inner, int64_t first, int64_t end, int64_t* out) {
  if (inner == 1) {
    for (int64_t i = first; i < end; ++i) out[i] = place_in_row<kLargest>(x + i * n, n);
    return;
  }
  while (first < end) {
    const int64_t column = first % inner;
    const int64_t count = std::min({kBeside, inner - column, end - first});
    places_beside<kLargest>(x + first / inner * n * inner + column, n, inner, count, out + first);
    first += count;
  }
}

template <bool kLargest>
Kernel places(const Request& request) {
  const TensorDesc& x = request.inputs[0];
  const int axis = axis_of(request);
  const int64_t n = x.shape[axis], inner = x.shape.elements(axis + 1, x.shape.rank());
  const int64_t count = request.outputs[0].shape.elements();
  Kernel kernel;
  visit_number(x.dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      for_pieces(threads, count, std::max<int64_t>(1, kPiece / n), [&](int64_t first, int64_t end) {
        places_piece<kLargest>(input<T>(buffers, 0), n, inner, first, end,
                               output<int64_t>(buffers, 0));
      });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> argmax() {
  static constexpr KernelEntry kKernels[] = {
      {"argmax", places<true>},
      {"argmin", places<false>},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
