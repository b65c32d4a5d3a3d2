// Comparisons of two floats of one dtype, two integers of any dtypes, or two bools -> bool; what
// connects bools; and where, which chooses by them.
#include "runtime/base/pairs.h"

#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

using Block = Broadcast::Block;

template <typename F, typename A, typename B>
Kernel compare_as(const Request& request) {
  return broadcast_kernel(request, [](const Block& block, const Buffers& buffers) {
    apply_block(F{}, block, input<A>(buffers, 0), input<B>(buffers, 1), output<bool>(buffers, 0));
  });
}

template <typename F>
Kernel compare(const Request& request) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return compare_as<F, bool, bool>(request);
  if (is_float(a))
    return visit_float(a, [&]<typename T>(T) { return compare_as<F, T, T>(request); });
  return visit_integer(a, [&]<typename A>(A) {
    return visit_integer(b, [&]<typename B>(B) { return compare_as<F, A, B>(request); });
  });
}

struct Choose {
  template <typename T>
  FLOW_INLINE T operator()(bool condition, T x, T y) const {
    return condition ? x : y;
  }
};

/// Elements of one size are chosen alike, whatever they mean.
template <typename T>
Kernel choose(const Request& request) {
  return broadcast_kernel(request, [](const Block& block, const Buffers& buffers) {
    apply_block(Choose{}, block, input<bool>(buffers, 0), input<T>(buffers, 1),
                input<T>(buffers, 2), output<T>(buffers, 0));
  });
}

}  // namespace

#define FLOW_NUMBER_PAIR(op, Function)
#define FLOW_PAIR(op, Function, ...)
#define FLOW_TRIPLE(op, Function, ...)
#define FLOW_COMPARISON(op, Function) \
  Kernel op(const Request& request) { return compare<functions::Function>(request); }
#include "runtime/base/pairs.def"
#undef FLOW_NUMBER_PAIR
#undef FLOW_PAIR
#undef FLOW_TRIPLE
#undef FLOW_COMPARISON

Kernel logical_and(const Request& request) {
  return compare_as<functions::And, bool, bool>(request);
}

Kernel logical_or(const Request& request) { return compare_as<functions::Or, bool, bool>(request); }

Kernel logical_not(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      const bool* x = input<bool>(buffers, 0);
      for (int64_t i = first; i < end; ++i) output<bool>(buffers, 0)[i] = !x[i];
    });
  };
  return kernel;
}

Kernel where(const Request& request) {
  return visit_size(size_of(request.outputs[0].dtype),
                    [&]<typename T>(T) -> Kernel { return choose<T>(request); });
}

}  // namespace flow::cpu::fast
