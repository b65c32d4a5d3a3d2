// Kernels of unary ops and of their gradients: unary.def lists them. They go over memory as it
// lies, so any layout will do that all operands share.
#include "ops/unary/activations.h"

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

// The result may lie exactly on an operand: `omp simd` says that iterations are independent.

template <typename F, typename T>
FLOW_INLINE void map_loop(F f, const T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <typename F>
FLOW_INLINE void gradient_loop(F f, const float* dy, const float* v, float* dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = f.gradient(dy[i], v[i]);
}

FLOW_INLINE bool any_far(const float* x, int64_t n) {
  int far = 0;
#pragma omp simd reduction(| : far)
  for (int64_t i = 0; i < n; ++i) far |= math::is_far(x[i]) ? 1 : 0;
  return far != 0;
}

// A function that is a vector only of numbers that are not far is another one where there are none.

template <typename F, typename T>
FLOW_INLINE void map_all(F f, const T* x, T* y, int64_t n) {
  if constexpr (requires { typename F::Near; })
    if (!any_far(x, n)) return map_loop(typename F::Near{}, x, y, n);
  map_loop(f, x, y, n);
}

template <typename F>
FLOW_INLINE void gradient_all(F f, const float* dy, const float* v, float* dx, int64_t n) {
  if constexpr (requires { typename F::Near; })
    if (!any_far(v, n)) return gradient_loop(typename F::Near{}, dy, v, dx, n);
  gradient_loop(f, dy, v, dx, n);
}

/// A Kernel that calls run(f, x, y, n) on each piece of the operand.
template <typename F, typename T>
Kernel map_kernel(const Request& request, F f, void (*run)(F, const T*, T*, int64_t)) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const T* x = input<T>(buffers, 0);
    T* y = output<T>(buffers, 0);
    for_pieces(threads, n, kPiece,
               [&](int64_t first, int64_t end) { run(f, x + first, y + first, end - first); });
  };
  return kernel;
}

/// The same with the operands dy and v.
template <typename F>
Kernel gradient_kernel(const Request& request, F f,
                       void (*run)(F, const float*, const float*, float*, int64_t)) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const float *dy = input<float>(buffers, 0), *v = input<float>(buffers, 1);
    float* dx = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      run(f, dy + first, v + first, dx + first, end - first);
    });
  };
  return kernel;
}

/// The same of bfloat16: widened, computed and rounded some elements at a time.
template <typename F>
Kernel low_precision_gradient(const Request& request, F f,
                              void (*run)(F, const float*, const float*, float*, int64_t)) {
  if (request.inputs[0].dtype != DType::kBFloat16) return {};
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const auto *dy = input<uint16_t>(buffers, 0), *v = input<uint16_t>(buffers, 1);
    auto* dx = output<uint16_t>(buffers, 0);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      constexpr int64_t kBlock = 1024;
      float wide_dy[kBlock], wide_v[kBlock];
      for (int64_t i = first; i < end; i += kBlock) {
        const int64_t count = std::min(kBlock, end - i);
        widen_bfloat16(dy + i, wide_dy, count);
        widen_bfloat16(v + i, wide_v, count);
        run(f, wide_dy, wide_v, wide_dy, count);
        round_to_bfloat16(wide_dy, dx + i, count);
      }
    });
  };
  return kernel;
}

template <template <typename> class F>
Kernel kernel_of_integers(const Request& request) {
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return map_kernel<F<T>, T>(request, F<T>{}, map_all<F<T>, T>);
  });
}

/// Tests floats.
template <template <typename> class F>
Kernel test_kernel(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const float* x = input<float>(buffers, 0);
    bool* y = output<bool>(buffers, 0);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) y[i] = F<float>{}(x[i]);
    });
  };
  return kernel;
}

// A loop of each function, since not every compiler clones templates for what the CPU has.
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
#define FLOW_UNARY_TEST_FUNCTOR(op, Function) \
  Kernel prepare_##op(const Request& request) { return test_kernel<functions::Function>(request); }
#define FLOW_UNARY_FUNCTOR(op, Function)                                                 \
  Kernel prepare_##op(const Request& request) {                                          \
    const auto f =                                                                       \
        functions::with_attributes<functions::Function, float>(request.step.attributes); \
    return map_kernel(request, f, op##_piece);                                           \
  }                                                                                      \
  Kernel prepare_##op##_grad(const Request& request) {                                   \
    const auto f =                                                                       \
        functions::with_attributes<functions::Function, float>(request.step.attributes); \
    if (is_low_precision(request.inputs[0].dtype))                                       \
      return low_precision_gradient(request, f, op##_grad_piece);                        \
    return gradient_kernel(request, f, op##_grad_piece);                                 \
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
