// top_k: the largest elements along an axis and their places, the first on ties. A NaN is larger
// than any number. top_k_grad: their gradients at those places, zero elsewhere.
#include <algorithm>
#include <numeric>

#include "runtime/base/ceil_div.h"
#include "runtime/base/order.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

/// x [outer, n, inner], values and indices [outer, k, inner].
struct TopKSizes {
  int64_t n, k, inner, columns;
};

/// The places of the k largest of a column, in order[0, k).
template <typename T>
void find_largest(const T* column, const TopKSizes& sizes, int64_t* order) {
  std::iota(order, order + sizes.n, int64_t{0});
  const auto comes_first = [&](int64_t a, int64_t b) {
    const T x = column[a * sizes.inner], y = column[b * sizes.inner];
    return exceeds(x, y) || (!exceeds(y, x) && a < b);
  };
  // To keep a heap of many takes longer than to sort all.
  if (sizes.k > sizes.n / 8)
    std::sort(order, order + sizes.n, comes_first);
  else
    std::partial_sort(order, order + sizes.k, order + sizes.n, comes_first);
}

/// The first element of column `c` of an array with `extent` elements along the axis.
int64_t start_of(const TopKSizes& sizes, int64_t extent, int64_t c) {
  return c / sizes.inner * extent * sizes.inner + c % sizes.inner;
}

template <typename T>
void take_largest(const T* x, const TopKSizes& sizes, int64_t c, int64_t* order, T* values,
                  int64_t* indices) {
  const T* column = x + start_of(sizes, sizes.n, c);
  find_largest(column, sizes, order);
  const int64_t out = start_of(sizes, sizes.k, c);
  for (int64_t j = 0; j < sizes.k; ++j) {
    values[out + j * sizes.inner] = column[order[j] * sizes.inner];
    if (indices) indices[out + j * sizes.inner] = order[j];
  }
}

TopKSizes sizes_of(const Request& request, const Shape& whole, int64_t k) {
  const int axis = axis_of(request);
  const int64_t n = whole[axis];
  return {n, k, whole.elements(axis + 1, whole.rank()), whole.elements() / n};
}

}  // namespace

Kernel top_k(const Request& request) {
  const TopKSizes sizes =
      sizes_of(request, request.inputs[0].shape, request.step.attributes.get<int64_t>("k"));
  const auto orders = static_cast<size_t>(request.threads);
  Kernel kernel;
  kernel.workspace = orders * static_cast<size_t>(sizes.n) * sizeof(int64_t);
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [sizes, threads = request.threads](const Buffers& buffers, const CallState&) {
      const int64_t piece = std::max<int64_t>(1, kPiece / sizes.n);
      parallel_for(threads, ceil_div(sizes.columns, piece), [&](int64_t chunk, int worker) {
        int64_t* order = reinterpret_cast<int64_t*>(buffers.workspace) + worker * sizes.n;
        const int64_t end = std::min(sizes.columns, (chunk + 1) * piece);
        for (int64_t c = chunk * piece; c < end; ++c)
          take_largest(input<T>(buffers, 0), sizes, c, order, output<T>(buffers, 0),
                       output<int64_t>(buffers, 1));
      });
    };
  });
  return kernel;
}

Kernel top_k_grad(const Request& request) {
  const int axis = axis_of(request);
  const TopKSizes sizes =
      sizes_of(request, request.outputs[0].shape, request.inputs[0].shape[axis]);
  Kernel kernel;
  kernel.launch = [sizes, threads = request.threads](const Buffers& buffers, const CallState&) {
    const float* dy = input<float>(buffers, 0);
    const int64_t* indices = input<int64_t>(buffers, 1);
    float* dx = output<float>(buffers, 0);
    for_pieces(threads, sizes.columns * sizes.n, kPiece,
               [&](int64_t first, int64_t end) { std::fill(dx + first, dx + end, 0.0f); });
    for_pieces(threads, sizes.columns, std::max<int64_t>(1, kPiece / sizes.k),
               [&](int64_t first, int64_t end) {
                 for (int64_t c = first; c < end; ++c) {
                   const int64_t from = start_of(sizes, sizes.k, c);
                   float* column = dx + start_of(sizes, sizes.n, c);
                   for (int64_t j = 0; j < sizes.k; ++j)
                     column[indices[from + j * sizes.inner] * sizes.inner] =
                         dy[from + j * sizes.inner];
                 }
               });
  };
  return kernel;
}

}  // namespace flow::cpu::fast
