// Kernels of the unary ops in unary.def and of their gradients. They process elements in memory
// order, so they support every layout that all operands share.
#include "ops/unary/unary.h"

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

/// The derivative of F times the gradient of the result.
template <typename F>
struct GradientOf {
  F f;
  FLOW_INLINE float operator()(float dy, float v) const { return f.gradient(dy, v); }
};

/// y = f(x...). The result may alias an operand exactly, because `omp simd` declares iterations
/// independent.
template <typename F, typename R, typename... T>
FLOW_INLINE void map_loop(F f, R* y, int64_t n, const T*... x) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]...);
}

FLOW_INLINE bool any_far(const float* x, int64_t n) {
  int far = 0;
#pragma omp simd reduction(| : far)
  for (int64_t i = 0; i < n; ++i) far |= math::is_far(x[i]) ? 1 : 0;
  return far != 0;
}

// Some functions can be vectorized only for numbers that are not far from 0. They have a second
// form, F::Near, which is used if all numbers are near.

template <typename F, typename T, typename R>
FLOW_INLINE void map_all(F f, const T* x, R* y, int64_t n) {
  if constexpr (requires { typename F::Near; })
    if (!any_far(x, n)) return map_loop(typename F::Near{}, y, n, x);
  map_loop(f, y, n, x);
}

template <typename F>
FLOW_INLINE void gradient_all(F f, const float* dy, const float* v, float* dx, int64_t n) {
  if constexpr (requires { typename F::Near; })
    if (!any_far(v, n)) return map_loop(GradientOf<typename F::Near>{}, dx, n, dy, v);
  map_loop(GradientOf<F>{f}, dx, n, dy, v);
}

/// Returns a Kernel that calls run(f, x, y, n) for each piece of the operand.
template <typename F, typename T, typename R>
Kernel map_kernel(const Request& request, F f, void (*run)(F, const T*, R*, int64_t)) {
  return elementwise(request, [=](const Piece& piece) {
    run(f, piece.input<T>(0), piece.output<R>(0), piece.size());
  });
}

/// Returns the kernel of a bfloat16 gradient, which widens, computes and rounds a block of elements
/// at a time.
template <typename F, typename Run>
Kernel low_precision_gradient(const Request& request, F f, Run run) {
  if (request.inputs[0].dtype != DType::kBFloat16) return {};
  return elementwise(request, [=](const Piece& piece) {
    constexpr int64_t kBlock = 1024;
    float dy[kBlock], v[kBlock];
    for (int64_t i = 0; i < piece.size(); i += kBlock) {
      const int64_t count = std::min(kBlock, piece.size() - i);
      widen_bfloat16(piece.input<uint16_t>(0) + i, dy, count);
      widen_bfloat16(piece.input<uint16_t>(1) + i, v, count);
      run(f, dy, v, dy, count);
      round_to_bfloat16(dy, piece.output<uint16_t>(0) + i, count);
    }
  });
}

/// Returns a Kernel that calls run(f, dy, v, dx, n) for each piece.
template <template <typename> class F, typename Run>
Kernel gradient_kernel(const Request& request, Run run) {
  const auto f = functions::with_attributes<F, float>(request.step.attributes);
  if (is_low_precision(request.inputs[0].dtype)) return low_precision_gradient(request, f, run);
  return elementwise(request, [=](const Piece& piece) {
    run(f, piece.input<float>(0), piece.input<float>(1), piece.output<float>(0), piece.size());
  });
}

template <template <typename> class F>
Kernel kernel_of_integers(const Request& request) {
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_kernel(request, F<T>{}, map_all<F<T>, T, T>);
  });
}

// Each function gets its own loop, because not every compiler clones templates for several
// instruction sets.
#define FLOW_UNARY_NUMBER_FUNCTOR(op, Function)                                           \
  FLOW_VECTORIZED void op##_piece(functions::Function<float> f, const float* x, float* y, \
                                  int64_t n) {                                            \
    map_all(f, x, y, n);                                                                  \
  }
#define FLOW_UNARY_FUNCTOR(op, Function)                                              \
  FLOW_UNARY_NUMBER_FUNCTOR(op, Function)                                             \
  FLOW_VECTORIZED void op##_grad_piece(functions::Function<float> f, const float* dy, \
                                       const float* v, float* dx, int64_t n) {        \
    gradient_all(f, dy, v, dx, n);                                                    \
  }
#include "ops/unary/unary.def"

bool approximates_by_tanh(const Request& request) {
  return request.step.attributes.get<std::string>("approximate") == "tanh";
}

#define FLOW_UNARY_NUMBER_FUNCTOR(op, Function)                           \
  Kernel prepare_##op(const Request& request) {                           \
    if (is_integer(request.inputs[0].dtype))                              \
      return kernel_of_integers<functions::Function>(request);            \
    return map_kernel(request, functions::Function<float>{}, op##_piece); \
  }
#define FLOW_UNARY_STEP_FUNCTOR(op, Function)                             \
  Kernel prepare_##op(const Request& request) {                           \
    return map_kernel(request, functions::Function<float>{}, op##_piece); \
  }
#define FLOW_UNARY_TEST_FUNCTOR(op, Function)                 \
  Kernel prepare_##op(const Request& request) {               \
    using F = functions::Function<float>;                     \
    return map_kernel(request, F{}, map_all<F, float, bool>); \
  }
#define FLOW_UNARY_FUNCTOR(op, Function)                                                 \
  Kernel prepare_##op(const Request& request) {                                          \
    const auto f =                                                                       \
        functions::with_attributes<functions::Function, float>(request.step.attributes); \
    return map_kernel(request, f, op##_piece);                                           \
  }                                                                                      \
  Kernel prepare_##op##_grad(const Request& request) {                                   \
    return gradient_kernel<functions::Function>(request, op##_grad_piece);               \
  }
#include "ops/unary/unary.def"

Kernel prepare_gelu(const Request& request) {
  return approximates_by_tanh(request) ? prepare_gelu_tanh(request) : prepare_gelu_erf(request);
}

Kernel prepare_gelu_grad(const Request& request) {
  return approximates_by_tanh(request) ? prepare_gelu_tanh_grad(request)
                                       : prepare_gelu_erf_grad(request);
}

}  // namespace

std::span<const KernelEntry> unary() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_UNARY_NUMBER_SPEC(op, ...) {#op, prepare_##op, Layouts::kSame},
#define FLOW_UNARY_SPEC(op, ...) \
  {#op, prepare_##op, Layouts::kSame}, {#op "_grad", prepare_##op##_grad, Layouts::kSame, true},
#include "ops/unary/unary.def"
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
