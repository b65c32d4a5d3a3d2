// Kernels of top_k, which returns the largest elements along an axis and their places, and of
// top_k_grad, which puts gradients at those places and zeros elsewhere. Of equal elements, the
// first one comes first. NaN is larger than any number.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "ops/core/along_axis.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

using TopK = ops::PickedAlongAxis;  // the shapes of x and of the values and indices

/// True if an element and its place fit 64 bits together.
template <typename T>
constexpr bool kFitsKey = sizeof(T) <= sizeof(uint32_t);

/// Returns bits in the same order as the elements.
template <typename T>
uint32_t ordered_bits(T x) {
  constexpr uint32_t kSign = uint32_t{1} << 31;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x)) return ~uint32_t{0};
    const auto bits = std::bit_cast<uint32_t>(x + T{0});  // turns -0 into 0
    const auto negative =
        static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);  // all bits or none
    return bits ^ (negative | kSign);
  } else {
    return static_cast<uint32_t>(x) ^ kSign;
  }
}

/// Returns a key that is larger if the element comes earlier in the result: a larger element comes
/// first, and of equal elements the first one.
template <typename T>
uint64_t key_of(T x, int64_t place) {
  return uint64_t{ordered_bits(x)} << 32 | ~static_cast<uint32_t>(place);
}

/// Writes the keys of the k largest elements of a column to keys[0, k) in order. Candidates are
/// collected until there are about 2 k; then all but the largest k are discarded. Most elements are
/// smaller than these, so they are only read.
template <typename T>
void find_keys(const T* column, const TopK& sizes, uint64_t* keys) {
  uint64_t* const kept = keys + sizes.count;
  uint64_t* const full = keys + std::min(sizes.n, 2 * sizes.count + 16);
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

/// Writes the places of the k largest elements of a column to order[0, k).
template <typename T>
void find_largest(const T* column, const TopK& sizes, uint64_t* order) {
  if constexpr (kFitsKey<T>) {
    if (sizes.n <= std::numeric_limits<uint32_t>::max()) {
      find_keys(column, sizes, order);
      for (int64_t j = 0; j < sizes.count; ++j) order[j] = ~static_cast<uint32_t>(order[j]);
      return;
    }
  }
  const auto comes_first = [&](uint64_t a, uint64_t b) {
    const T x = column[static_cast<int64_t>(a) * sizes.inner];
    const T y = column[static_cast<int64_t>(b) * sizes.inner];
    return exceeds(x, y) || (!exceeds(y, x) && a < b);
  };
  std::iota(order, order + sizes.n, uint64_t{0});
  // If k is large, a full sort is faster than a heap.
  if (sizes.count > sizes.n / 8)
    std::sort(order, order + sizes.n, comes_first);
  else
    std::partial_sort(order, order + sizes.count, order + sizes.n, comes_first);
}

template <typename T>
void take_largest(const T* x, const TopK& sizes, int64_t c, uint64_t* order, T* values,
                  int64_t* indices) {
  const T* column = x + sizes.start(c);
  find_largest(column, sizes, order);
  const int64_t out = sizes.picked_start(c);
  for (int64_t j = 0; j < sizes.count; ++j) {
    const auto place = static_cast<int64_t>(order[j]);
    values[out + j * sizes.inner] = column[place * sizes.inner];
    if (indices) indices[out + j * sizes.inner] = place;
  }
}

Kernel prepare_top_k(const Request& request) {
  const TopK sizes(request.inputs[0].shape, request.outputs[0].shape, request.step.attributes);
  Kernel kernel = visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return by_rows(request, sizes.columns(), sizes.n, [sizes](const Piece& piece, int64_t c) {
      const Buffers& buffers = piece.buffers;
      uint64_t* order = reinterpret_cast<uint64_t*>(buffers.workspace) + piece.worker * sizes.n;
      take_largest(input<T>(buffers, 0), sizes, c, order, output<T>(buffers, 0),
                   output<int64_t>(buffers, 1));
    });
  });
  kernel.workspace = static_cast<size_t>(request.threads * sizes.n) * sizeof(uint64_t);
  return kernel;
}

template <typename T>
Kernel top_k_grad_with(const Request& request) {
  const TopK sizes(request.outputs[0].shape, request.inputs[0].shape, request.step.attributes);
  Kernel placing =
      by_rows(request, sizes.columns(), sizes.count, [sizes](const Piece& piece, int64_t c) {
        const int64_t from = sizes.picked_start(c);
        const T* dy = input<T>(piece.buffers, 0) + from;
        const int64_t* indices = input<int64_t>(piece.buffers, 1) + from;
        T* dx = output<T>(piece.buffers, 0) + sizes.start(c);
        for (int64_t j = 0; j < sizes.count; ++j)
          dx[indices[j * sizes.inner] * sizes.inner] = dy[j * sizes.inner];
      });
  const Kernel clearing = elementwise(
      request, [](const Piece& piece) { std::fill_n(piece.output<T>(0), piece.size(), T{0}); });
  return {[clear = clearing.launch, place = std::move(placing.launch)](const Buffers& buffers,
                                                                       const CallState& state) {
    clear(buffers, state);
    place(buffers, state);
  }};
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
