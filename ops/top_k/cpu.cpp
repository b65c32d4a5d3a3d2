// top_k: the largest elements along an axis and their places, the first on ties. A NaN is larger
// than any number. top_k_grad: their gradients at those places, zero elsewhere.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// x [outer, n, inner], values and indices [outer, k, inner].
struct TopKSizes {
  int64_t n, k, inner, columns;
};

/// Can an element and its place share 64 bits?
template <typename T>
constexpr bool kFitsKey = sizeof(T) <= sizeof(uint32_t);

/// Bits that order as the elements do.
template <typename T>
uint32_t ordered_bits(T x) {
  constexpr uint32_t kSign = uint32_t{1} << 31;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x)) return ~uint32_t{0};
    const auto bits = std::bit_cast<uint32_t>(x + T{0});  // there is one zero
    const auto negative = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);  // all or none
    return bits ^ (negative | kSign);
  } else {
    return static_cast<uint32_t>(x) ^ kSign;
  }
}

/// A larger key comes first: that of a larger element, and of equal ones of the first.
template <typename T>
uint64_t key_of(T x, int64_t place) {
  return uint64_t{ordered_bits(x)} << 32 | ~static_cast<uint32_t>(place);
}

/// The keys of the k largest of a column, in order, in keys[0, k). Those beyond the k that are kept
/// are thrown away when there are twice as many, so that few elements are more than read.
template <typename T>
void find_keys(const T* column, const TopKSizes& sizes, uint64_t* keys) {
  uint64_t* const kept = keys + sizes.k;
  uint64_t* const full = keys + std::min(sizes.n, 2 * sizes.k + 16);
  uint64_t* end = keys;
  uint64_t least = 0;
  for (int64_t i = 0; i < sizes.n; ++i) {
    const uint64_t key = key_of(column[i * sizes.inner], i);
    if (key <= least) continue;
    if (end == full) {
      std::nth_element(keys, kept - 1, end, std::greater<>());
      end = kept;
      least = kept[-1];
      if (key <= least) continue;
    }
    *end++ = key;
  }
  std::nth_element(keys, kept - 1, end, std::greater<>());
  std::sort(keys, kept, std::greater<>());
}

/// The places of the k largest of a column, in order[0, k).
template <typename T>
void find_largest(const T* column, const TopKSizes& sizes, uint64_t* order) {
  if constexpr (kFitsKey<T>) {
    if (sizes.n <= std::numeric_limits<uint32_t>::max()) {
      find_keys(column, sizes, order);
      for (int64_t j = 0; j < sizes.k; ++j) order[j] = ~static_cast<uint32_t>(order[j]);
      return;
    }
  }
  const auto comes_first = [&](uint64_t a, uint64_t b) {
    const T x = column[static_cast<int64_t>(a) * sizes.inner];
    const T y = column[static_cast<int64_t>(b) * sizes.inner];
    return exceeds(x, y) || (!exceeds(y, x) && a < b);
  };
  std::iota(order, order + sizes.n, uint64_t{0});
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
void take_largest(const T* x, const TopKSizes& sizes, int64_t c, uint64_t* order, T* values,
                  int64_t* indices) {
  const T* column = x + start_of(sizes, sizes.n, c);
  find_largest(column, sizes, order);
  const int64_t out = start_of(sizes, sizes.k, c);
  for (int64_t j = 0; j < sizes.k; ++j) {
    const auto place = static_cast<int64_t>(order[j]);
    values[out + j * sizes.inner] = column[place * sizes.inner];
    if (indices) indices[out + j * sizes.inner] = place;
  }
}

TopKSizes sizes_of(const Request& request, const Shape& whole, int64_t k) {
  const int axis = axis_of(request);
  const int64_t n = whole[axis];
  return {n, k, whole.elements(axis + 1, whole.rank()), whole.elements() / n};
}

Kernel prepare_top_k(const Request& request) {
  const TopKSizes sizes =
      sizes_of(request, request.inputs[0].shape, request.step.attributes.get<int64_t>("k"));
  const auto orders = static_cast<size_t>(request.threads);
  Kernel kernel;
  kernel.workspace = orders * static_cast<size_t>(sizes.n) * sizeof(uint64_t);
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [sizes, threads = request.threads](const Buffers& buffers, const CallState&) {
      const int64_t piece = std::max<int64_t>(1, kPiece / sizes.n);
      parallel_for(threads, ceil_div(sizes.columns, piece), [&](int64_t chunk, int worker) {
        uint64_t* order = reinterpret_cast<uint64_t*>(buffers.workspace) + worker * sizes.n;
        const int64_t end = std::min(sizes.columns, (chunk + 1) * piece);
        for (int64_t c = chunk * piece; c < end; ++c)
          take_largest(input<T>(buffers, 0), sizes, c, order, output<T>(buffers, 0),
                       output<int64_t>(buffers, 1));
      });
    };
  });
  return kernel;
}

template <typename T>
Kernel top_k_grad_with(const Request& request) {
  const int axis = axis_of(request);
  const TopKSizes sizes =
      sizes_of(request, request.outputs[0].shape, request.inputs[0].shape[axis]);
  Kernel kernel;
  kernel.launch = [sizes, threads = request.threads](const Buffers& buffers, const CallState&) {
    const T* dy = input<T>(buffers, 0);
    const int64_t* indices = input<int64_t>(buffers, 1);
    T* dx = output<T>(buffers, 0);
    for_pieces(threads, sizes.columns * sizes.n, kPiece,
               [&](int64_t first, int64_t end) { std::fill(dx + first, dx + end, T{0}); });
    for_pieces(threads, sizes.columns, std::max<int64_t>(1, kPiece / sizes.k),
               [&](int64_t first, int64_t end) {
                 for (int64_t c = first; c < end; ++c) {
                   const int64_t from = start_of(sizes, sizes.k, c);
                   T* column = dx + start_of(sizes, sizes.n, c);
                   for (int64_t j = 0; j < sizes.k; ++j)
                     column[indices[from + j * sizes.inner] * sizes.inner] =
                         dy[from + j * sizes.inner];
                 }
               });
  };
  return kernel;
}

Kernel prepare_top_k_grad(const Request& request) {
  return visit_float(request.inputs[0].dtype,
                     [&]<typename T>(T) { return top_k_grad_with<T>(request); });
}

}  // namespace

std::span<const KernelEntry> top_k() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "top_k", .prepare = prepare_top_k, .float64 = prepare_top_k},
      {.op = "top_k_grad", .prepare = prepare_top_k_grad, .float64 = prepare_top_k_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
