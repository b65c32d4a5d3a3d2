// Arithmetic of numbers that broadcast, and `scale`; comparisons of two floats of the same dtype,
// two integers of any dtypes, or two bools; the logical ops; and `where`, which selects by a bool.
#include "ops/binary/cuda.cuh"
#include "ops/core/spec.h"
#include "ops/unary/unary.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"

namespace flow::cuda {
namespace {

template <typename T>
struct Scale {
  T factor;
  __device__ T operator()(T x) const { return x * factor; }
};

Kernel prepare_scale(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto factor = static_cast<T>(attribute<double>(request, "factor"));
    return {map_launch<T>("scale", request, Scale<T>{factor})};
  });
}

template <typename T>
struct RectifiedSum {
  __device__ T operator()(T a, T b) const {
    return convert<T>(functions::Relu<Wide<T>>{}(convert<Wide<T>>(a) + convert<Wide<T>>(b)));
  }
};

/// The part of a gradient a + b that a ReLU with the result y passes on.
template <typename T>
struct PassedSum {
  __device__ T operator()(T a, T b, T y) const {
    return convert<T>(functions::Relu<Wide<T>>{}.gradient(convert<Wide<T>>(a) + convert<Wide<T>>(b),
                                                          convert<Wide<T>>(y)));
  }
};

/// Returns the kernel of a sum of tensors of one shape whose epilogue is a relu or the gradient of
/// one.
Kernel rectified_sum_kernel(const Request& request) {
  const bool forward = request.step.epilogue[0].op->epilogue == ops::Epilogue::kRelu;
  return visit_any_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    if (forward) return {map_pairs_launch<T>("add_relu", request, RectifiedSum<T>{})};
    return {[n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      const auto* y = reinterpret_cast<const T*>(buffers.epilogue_operands[0][0]);
      launch(state.driver, state.stream, "add_relu_grad", shape_for_vectors<T>(n),
             map_flat<T, PassedSum<T>, T, T, T>, output<T>(buffers, 0), n, PassedSum<T>{},
             input<T>(buffers, 0), input<T>(buffers, 1), y);
    }};
  });
}

template <template <typename> class F>
Kernel prepare_pair(const Request& request) {
  const bool sum = std::is_same_v<F<float>, functions::Add<float>>;
  if (sum && !request.step.epilogue.empty()) return rectified_sum_kernel(request);
  return number_pair_kernel<F>(request);
}

/// Computes out[i] = f(a[loops(i)], b[loops(i)]) for i < n.
template <typename F>
__global__ void compare_integers(Loops<2> loops, Integers a, Integers b, bool* out, int64_t n,
                                 F f) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    out[i] = f(a[at.of[0]], b[at.of[1]]);
  }
}

using functions::Choose;

struct Not {
  __device__ bool operator()(bool x) const { return !x; }
};

Loops<2> loops_of(const Request& request) {
  return broadcast_loops<2>({request.inputs[0].shape, request.inputs[1].shape},
                            request.outputs[0].shape);
}

template <typename T, typename F>
Kernel compare_as(const char* name, const Request& request, F f) {
  return {broadcast_launch<bool, T, T>(name, request, f)};
}

template <typename F>
Kernel compare(const char* name, const Request& request, F f) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return compare_as<bool>(name, request, f);
  if (is_float(a))
    return visit_float(a, [&]<typename T>(T) { return compare_as<T>(name, request, f); });
  return {[=, loops = loops_of(request), n = result_elements(request)](const Buffers& buffers,
                                                                       const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for(n), compare_integers<F>, loops,
           Integers{buffers.inputs[0], a}, Integers{buffers.inputs[1], b}, output<bool>(buffers, 0),
           n, f);
  }};
}

/// Selects between the elements of two tensors. All dtypes of the same size share a kernel.
template <typename T>
Kernel choose(const Request& request) {
  return {broadcast_launch<T, bool, T, T>("where", request, Choose{})};
}

#define FLOW_COMPARISON(op, Function, ...)               \
  Kernel prepare_##op(const Request& request) {          \
    return compare(#op, request, functions::Function{}); \
  }
#define FLOW_LOGICAL(op, Function, ...)                           \
  Kernel prepare_##op(const Request& request) {                   \
    return compare_as<bool>(#op, request, functions::Function{}); \
  }
#include "ops/binary/binary.def"

Kernel prepare_logical_not(const Request& request) {
  return {map_launch<bool>("logical_not", request, Not{})};
}

Kernel prepare_where(const Request& request) {
  return visit_size(size_of(request.outputs[0].dtype),
                    [&]<typename T>(T) -> Kernel { return choose<T>(request); });
}

}  // namespace

std::span<const KernelEntry> kernels::binary() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, Function, ...) \
  {#op, prepare_pair<functions::Function>, {}, {}, {}, layout_of_pairs<functions::Function>()},
#define FLOW_FLOAT_ARITHMETIC(op, Function, ...) {#op, pair_kernel<functions::Function>},
#define FLOW_ARITHMETIC_GRAD(op, Function, ...) {#op, triple_kernel<functions::Function>},
#include "ops/binary/binary.def"
      {"scale", prepare_scale},
#define FLOW_COMPARISON(op, ...) {#op, prepare_##op},
#include "ops/binary/binary.def"
      {"logical_not", prepare_logical_not},
      {"where", prepare_where},
  };
  return kKernels;
}

}  // namespace flow::cuda
