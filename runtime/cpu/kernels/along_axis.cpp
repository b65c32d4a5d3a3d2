// Elements picked, written and added up along an axis, each by an index of its own. Updates of an
// element are done in the order of the indices, whatever the number of threads.
#include <algorithm>
#include <cstring>

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/kernels/labels.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// x [outer, n, inner], indices [outer, count, inner].
struct AlongAxis {
  int64_t outer, n, count, inner;
};

AlongAxis sizes_along(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  return {x.elements(0, axis), x[axis], request.inputs[1].shape[axis],
          x.elements(axis + 1, x.rank())};
}

/// Calls body(o, i, first, end) for the rows [o, i, first .. end) of indices: those of one column
/// in their order, by one thread.
template <typename Body>
void for_index_rows(int threads, const AlongAxis& sizes, Body body) {
  constexpr int64_t kMostColumns = 1024;
  const int64_t width = std::min(sizes.inner, kMostColumns), across = ceil_div(sizes.inner, width);
  for_pieces(threads, sizes.outer * across, std::max<int64_t>(1, kPiece / (sizes.count * width)),
             [&](int64_t begin, int64_t last) {
               for (int64_t block = begin; block < last; ++block) {
                 const int64_t first = block % across * width;
                 for (int64_t i = 0; i < sizes.count; ++i)
                   body(block / across, i, first, std::min(sizes.inner, first + width));
               }
             });
}

/// Zero where the index is out of range, which stops the run.
template <typename T, typename I>
void take_row(const AlongAxis& sizes, const T* x, const I* indices, T* y, int64_t o, int64_t i,
              int64_t first, int64_t end) {
  const int64_t row = (o * sizes.count + i) * sizes.inner;
  for (int64_t k = first; k < end; ++k) {
    const auto index = static_cast<int64_t>(indices[row + k]);
    const bool known = 0 <= index && index < sizes.n;
    y[row + k] = known ? x[(o * sizes.n + index) * sizes.inner + k] : T{};
  }
}

Kernel prepare_take_along_axis(const Request& request) {
  const TensorDesc& indices = request.inputs[1];
  const AlongAxis sizes = sizes_along(request);
  Kernel kernel;
  visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) {
    visit_integer(indices.dtype, [&]<typename I>(I) {
      kernel.launch = [sizes, threads = request.threads,
                       check = LabelCheck(request, indices, sizes.n)](const Buffers& buffers,
                                                                      const CallState& state) {
        check.run(buffers.inputs[1], state);
        for_index_rows(threads, sizes, [&](int64_t o, int64_t i, int64_t first, int64_t end) {
          take_row(sizes, input<T>(buffers, 0), input<I>(buffers, 1), output<T>(buffers, 0), o, i,
                   first, end);
        });
      };
    });
  });
  return kernel;
}

/// Calls update(y element, update) for a row of updates; leaves out indices out of range.
template <typename T, typename I, typename Update>
void update_row(const AlongAxis& sizes, const I* indices, const T* updates, T* y, int64_t o,
                int64_t i, int64_t first, int64_t end, Update update) {
  const int64_t row = (o * sizes.count + i) * sizes.inner;
  for (int64_t k = first; k < end; ++k) {
    const auto index = static_cast<int64_t>(indices[row + k]);
    if (0 <= index && index < sizes.n)
      update(y[(o * sizes.n + index) * sizes.inner + k], updates[row + k]);
  }
}

/// A kernel on elements of type T. May be in place.
template <typename T, typename Update>
Kernel updating(const Request& request, Update update) {
  const TensorDesc& indices = request.inputs[1];
  const AlongAxis sizes = sizes_along(request);
  Kernel kernel;
  visit_integer(indices.dtype, [&]<typename I>(I) {
    kernel.launch = [sizes, update, threads = request.threads,
                     n = request.inputs[0].shape.elements(),
                     check = LabelCheck(request, indices, sizes.n)](const Buffers& buffers,
                                                                    const CallState& state) {
      check.run(buffers.inputs[1], state);
      const T* x = input<T>(buffers, 0);
      T* y = output<T>(buffers, 0);
      if (x != y)
        for_pieces(threads, n, kPiece,
                   [&](int64_t first, int64_t end) { std::copy(x + first, x + end, y + first); });
      for_index_rows(threads, sizes, [&](int64_t o, int64_t i, int64_t first, int64_t end) {
        update_row(sizes, input<I>(buffers, 1), input<T>(buffers, 2), y, o, i, first, end, update);
      });
    };
  });
  return kernel;
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

std::span<const KernelEntry> along_axis() {
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
