// argmax and argmin: the index of the largest or smallest element along an axis; on ties, the
// first. A NaN precedes any number, as in NumPy.
#include <algorithm>
#include <type_traits>

#include "ops/core/along_axis.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kBeside = 64;  // number of columns that are searched together

/// Finds the index of the extreme of n elements in each of `count` adjacent columns. The elements
/// of a column are `inner` apart.
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

/// Finds the index of the extreme of n adjacent elements. A long row is searched as kBeside
/// interleaved columns, whose extremes are then compared; on ties, the first index wins.
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

/// Computes one piece of the result: x (outer, n, inner) -> out (outer, inner).
template <bool kLargest, typename T>
void places_piece(const ops::AlongAxis& x, const Piece& piece) {
  int64_t* out = piece.output<int64_t>(0);
  for (int64_t c = piece.first, count = 1; c < piece.end; c += count, out += count) {
    const T* column = input<T>(piece.buffers, 0) + x.start(c);
    if (x.inner == 1) {
      *out = place_in_row<kLargest>(column, x.n);
    } else {
      count = std::min({kBeside, x.inner - c % x.inner, piece.end - c});
      places_beside<kLargest>(column, x.n, x.inner, count, out);
    }
  }
}

template <bool kLargest>
Kernel places(const Request& request) {
  const ops::AlongAxis x(request.inputs[0].shape, request.step.attributes);
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return in_pieces(request, x.columns(), std::max<int64_t>(1, kPiece / x.n),
                     [x](const Piece& piece) { places_piece<kLargest, T>(x, piece); });
  });
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
