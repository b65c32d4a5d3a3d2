// CPU kernels that take, replace or add to elements along an axis, each by a separate index.
// Updates of an element are applied in the order of the indices for any number of threads.
#include <algorithm>
#include <cstring>

#include "ops/core/along_axis.h"
#include "ops/core/cpu_labels.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

/// Returns the sizes of x and of the elements that the indices pick.
ops::PickedAlongAxis sizes_along(const Request& request) {
  return {request.inputs[0].shape, request.inputs[1].shape, request.step.attributes};
}

/// The elements of part `o` of x in [low, high) along the axis and in the columns
/// [first, end).
struct Slab {
  int64_t o, first, end, low, high;
};

/// Calls body(slab) for slabs that together cover x, on several threads. If there are few columns,
/// slabs are also split along the axis; the thread of a slab then scans all indices of its columns.
template <typename Body>
void for_slabs(int threads, const ops::PickedAlongAxis& sizes, Body body) {
  constexpr int64_t kMostColumns = 1024, kMostParts = 16;
  const int64_t width = std::min(sizes.inner, kMostColumns), across = ceil_div(sizes.inner, width);
  const int64_t blocks = sizes.outer * across, work = (sizes.count + sizes.n) * width;
  int64_t parts = std::clamp<int64_t>(std::min(kMostParts / blocks, work / kPiece), 1, sizes.n);
  const int64_t rows = ceil_div(sizes.n, parts);
  parts = ceil_div(sizes.n, rows);
  for_pieces(threads, blocks * parts, std::max<int64_t>(1, kPiece / work),
             [&](int64_t begin, int64_t last) {
               for (int64_t k = begin; k < last; ++k) {
                 const int64_t block = k / parts, low = k % parts * rows;
                 const int64_t first = block % across * width;
                 body(Slab{block / across, first, std::min(sizes.inner, first + width), low,
                           std::min(sizes.n, low + rows)});
               }
             });
}

/// Takes the elements of one row. Writes zero for an index that is out of range, which stops the
/// run.
template <typename T, typename I>
void take_row(const ops::PickedAlongAxis& sizes, const Buffers& buffers, int64_t row) {
  const T* x = input<T>(buffers, 0);
  const I* indices = input<I>(buffers, 1) + row * sizes.inner;
  T* y = output<T>(buffers, 0) + row * sizes.inner;
  const int64_t o = row / sizes.count;
  for (int64_t k = 0; k < sizes.inner; ++k) {
    const auto index = static_cast<int64_t>(indices[k]);
    y[k] = 0 <= index && index < sizes.n ? x[sizes.at(o, index, k)] : T{};
  }
}

Kernel prepare_take_along_axis(const Request& request) {
  const ops::PickedAlongAxis sizes = sizes_along(request);
  const auto taking = [&]<typename T, typename I>(T, I) {
    return by_rows(
        request, sizes.outer * sizes.count, sizes.inner,
        [sizes](const Piece& piece, int64_t row) { take_row<T, I>(sizes, piece.buffers, row); });
  };
  Kernel kernel = visit_size(size_of(request.inputs[0].dtype), [&](auto element) {
    return visit_integer(request.inputs[1].dtype,
                         [&](auto index) { return taking(element, index); });
  });
  return checked(request, 1, sizes.n, std::move(kernel));
}

/// Calls update(element of y, update) for the updates of a slab, in the order of their indices.
/// Skips indices that are out of range.
template <typename T, typename I, typename Update>
void update_slab(const ops::PickedAlongAxis& sizes, const I* indices, const T* updates, T* y,
                 const Slab& slab, Update update) {
  for (int64_t i = 0; i < sizes.count; ++i) {
    const int64_t row = (slab.o * sizes.count + i) * sizes.inner;
    for (int64_t k = slab.first; k < slab.end; ++k) {
      const auto index = static_cast<int64_t>(indices[row + k]);
      if (slab.low <= index && index < slab.high)
        update(y[sizes.at(slab.o, index, k)], updates[row + k]);
    }
  }
}

/// Returns a kernel that updates elements of type T. The result may alias the first operand.
template <typename T, typename Update>
Kernel updating(const Request& request, Update update) {
  const ops::PickedAlongAxis sizes = sizes_along(request);
  Kernel kernel;
  visit_integer(request.inputs[1].dtype, [&]<typename I>(I) {
    kernel.launch = [sizes, update, threads = request.threads](const Buffers& buffers,
                                                               const CallState&) {
      const T* x = input<T>(buffers, 0);
      T* y = output<T>(buffers, 0);
      if (x != y)
        for_pieces(threads, sizes.columns() * sizes.n, kPiece,
                   [&](int64_t first, int64_t end) { std::copy(x + first, x + end, y + first); });
      for_slabs(threads, sizes, [&](const Slab& slab) {
        update_slab(sizes, input<I>(buffers, 1), input<T>(buffers, 2), y, slab, update);
      });
    };
  });
  return checked(request, 1, sizes.n, std::move(kernel));
}

Kernel prepare_put_along_axis(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) {
    return updating<T>(request, [](T& y, T update) { y = update; });
  });
}

Kernel prepare_add_along_axis(const Request& request) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return updating<T>(request, [](T& y, T update) {
      if constexpr (std::is_integral_v<T>)
        y = static_cast<T>(static_cast<uint64_t>(y) + static_cast<uint64_t>(update));
      else
        y += update;
    });
  });
}

}  // namespace

std::span<const KernelEntry> indexing() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "take_along_axis", .prepare = prepare_take_along_axis, .any_dtype = true},
      {.op = "put_along_axis", .prepare = prepare_put_along_axis, .any_dtype = true},
      {.op = "add_along_axis",
       .prepare = prepare_add_along_axis,
       .float64 = prepare_add_along_axis},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
