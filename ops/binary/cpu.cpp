// Arithmetic of numbers that broadcast, and `scale`; comparisons of two floats of the same dtype,
// two integers of any dtypes, or two bools; the logical ops; and `where`, which selects by a bool.
#include <algorithm>
#include <array>
#include <functional>

#include "ops/binary/cpu_loops.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

Kernel prepare_scale(const Request& request) {
  return elementwise(
      request, [factor = static_cast<float>(number(request, "factor"))](const Piece& piece) {
        scale_to(piece.input<float>(0), factor, piece.output<float>(0), piece.size());
      });
}

using Block = Broadcast::Block;

template <typename F, typename A, typename B>
Kernel compare_as(const Request& request) {
  return broadcast_kernel(request, [](const Block& block, const Buffers& buffers) {
    apply_block(F{}, block, input<A>(buffers, 0), input<B>(buffers, 1), output<bool>(buffers, 0));
  });
}

/// The number of elements that are widened at a time. Two arrays of this size fit in the L1 cache.
constexpr int64_t kWidened = 512;

/// Sets wide[i] = x[i * stride] for i below n, where x has any integer dtype.
void widen(DType dtype, const std::byte* x, int64_t first, int64_t stride, int64_t n,
           int64_t* wide) {
  visit_integer(dtype, [&]<typename T>(T) {
    const T* from = reinterpret_cast<const T*>(x) + first;
    for (int64_t i = 0; i < n; ++i) wide[i] = static_cast<int64_t>(from[i * stride]);
  });
}

/// Compares integers of two dtypes by value. The integers are widened first, because separate loops
/// for all pairs of dtypes would be about a hundred.
template <typename F>
Kernel compare_widened(const Request& request) {
  return broadcast_kernel(request, [a = request.inputs[0].dtype, b = request.inputs[1].dtype](
                                       const Block& block, const Buffers& buffers) {
    std::array<int64_t, kWidened> wide_a, wide_b;
    for (int64_t row = 0; row < block.rows; ++row) {
      bool* y = output<bool>(buffers, 0) + block.out + row * block.columns;
      for (int64_t i = 0; i < block.columns; i += kWidened) {
        const int64_t n = std::min(kWidened, block.columns - i);
        const auto widen_operand = [&](size_t k, DType dtype, int64_t* wide) {
          const int64_t first = block.first[k] + row * block.row[k] + i * block.column[k];
          widen(dtype, buffers.inputs[k], first, block.column[k], n, wide);
        };
        widen_operand(0, a, wide_a.data());
        widen_operand(1, b, wide_b.data());
        for (int64_t j = 0; j < n; ++j) y[i + j] = F{}(wide_a[j], wide_b[j]);
      }
    }
  });
}

template <typename F>
Kernel compare(const Request& request) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return compare_as<F, bool, bool>(request);
  if (is_float(a))
    return visit_float(a, [&]<typename T>(T) { return compare_as<F, T, T>(request); });
  if (a != b) return compare_widened<F>(request);
  return visit_integer(a, [&]<typename T>(T) { return compare_as<F, T, T>(request); });
}

/// Selects between the elements of two tensors. All dtypes of the same size share a kernel.
template <typename T>
Kernel choose(const Request& request) {
  return broadcast_kernel(request, [](const Block& block, const Buffers& buffers) {
    apply_block(functions::Choose{}, block, input<bool>(buffers, 0), input<T>(buffers, 1),
                input<T>(buffers, 2), output<T>(buffers, 0));
  });
}

Kernel prepare_logical_not(const Request& request) {
  return elementwise(request, [](const Piece& piece) {
    const bool* x = piece.input<bool>(0);
    std::transform(x, x + piece.size(), piece.output<bool>(0), std::logical_not());
  });
}

Kernel prepare_where(const Request& request) {
  return visit_size(size_of(request.outputs[0].dtype),
                    [&]<typename T>(T) -> Kernel { return choose<T>(request); });
}

}  // namespace

// One loop for each function, because not every compiler clones templates for several instruction
// sets.
#define FLOW_PAIR_FUNCTOR(op, Function)                                                       \
  FLOW_VECTORIZED void run_block(functions::Function<float> f, const Broadcast::Block& block, \
                                 const float* a, const float* b, float* y) {                  \
    apply_block(f, block, a, b, y);                                                           \
  }
#define FLOW_TRIPLE_FUNCTOR(op, Function)                                                     \
  FLOW_VECTORIZED void run_block(functions::Function<float> f, const Broadcast::Block& block, \
                                 const float* a, const float* b, const float* c, float* y) {  \
    apply_block(f, block, a, b, c, y);                                                        \
  }
#include "ops/binary/binary.def"

std::span<const KernelEntry> binary() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, Function, ...) \
  {#op, number_pair_kernel<functions::Function>, Layouts::kSame},
#define FLOW_FLOAT_ARITHMETIC(op, Function, ...) \
  {#op, pair_kernel<functions::Function>, Layouts::kSame},
#define FLOW_ARITHMETIC_GRAD(op, Function, ...) \
  {#op, triple_kernel<functions::Function>, Layouts::kSame},
#include "ops/binary/binary.def"
      {"scale", prepare_scale, Layouts::kSame},
#define FLOW_COMPARISON(op, Function, ...) {#op, compare<functions::Function>, Layouts::kSame},
#define FLOW_LOGICAL(op, Function, ...) \
  {#op, compare_as<functions::Function, bool, bool>, Layouts::kSame},
#include "ops/binary/binary.def"
      {"logical_not", prepare_logical_not, Layouts::kSame},
      {.op = "where", .prepare = prepare_where, .layouts = Layouts::kSame, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
