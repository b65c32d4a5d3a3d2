// argmax and argmin: the place of the largest or smallest element along an axis, the first on ties.
// A NaN comes before any number, as in NumPy.
#include "runtime/base/order.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

/// x [outer, n, inner] -> out [outer, inner], elements [first, end) of it.
template <bool kLargest, typename T>
void places_piece(const T* x, int64_t n, int64_t inner, int64_t first, int64_t end, int64_t* out) {
  for (int64_t i = first; i < end; ++i) {
    const T* column = x + i / inner * n * inner + i % inner;
    int64_t best = 0;
    for (int64_t k = 1; k < n; ++k)
      if (precedes<kLargest>(column[k * inner], column[best * inner])) best = k;
    out[i] = best;
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

Kernel argmax(const Request& request) { return places<true>(request); }

Kernel argmin(const Request& request) { return places<false>(request); }

}  // namespace flow::cpu::fast
