// Elementwise kernels of one operand (relu, scale), of two alike (relu_grad), and of two that
// broadcast (add, multiply).
#include "runtime/cuda/map.cuh"
#include "runtime/cuda/operands.h"

namespace flow::cuda {
namespace {

template <typename T>
struct Relu {
  __device__ T operator()(T x) const { return x > 0 ? x : T{0}; }
};

template <typename T>
struct Scale {
  T factor;
  __device__ T operator()(T x) const { return x * factor; }
};

template <typename T>
struct ReluGrad {
  __device__ T operator()(T dy, T y) const { return y > 0 ? dy : T{0}; }
};

struct Multiply {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};

/// y = f(x)
template <typename T, typename F>
Launch map_launch(const char* name, const Request& request, F f) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for_vectors<T>(n), map_flat<T, F>,
           input<T>(buffers, 0), output<T>(buffers, 0), n, f);
  };
}

/// out = f(a, b), of equal shapes
template <typename T, typename F>
Launch map_pairs_launch(const char* name, const Request& request, F f) {
  return [=, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for_vectors<T>(n), map_flat_pairs<T, F>,
           input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0), n, f);
  };
}

/// The same of shapes that broadcast
template <typename T, typename F>
Launch map_broadcast_launch(const char* name, const Request& request, F f) {
  const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape;
  return [=, loops = broadcast_loops(a, b, request.outputs[0].shape), n = result_elements(request)](
             const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, name, shape_for(n), map_pairs<T, T, F>, loops,
           input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0), n, f);
  };
}

template <typename F>
Kernel arithmetic(const char* name, const Request& request, F f) {
  const bool alike = request.inputs[0].shape == request.inputs[1].shape;
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {alike ? map_pairs_launch<T>(name, request, f)
                  : map_broadcast_launch<T>(name, request, f)};
  });
}

}  // namespace

Kernel relu(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {map_launch<T>("relu", request, Relu<T>{})};
  });
}

Kernel scale(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto factor = static_cast<T>(attribute<double>(request, "factor"));
    return {map_launch<T>("scale", request, Scale<T>{factor})};
  });
}

Kernel relu_grad(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {map_pairs_launch<T>("relu_grad", request, ReluGrad<T>{})};
  });
}

Kernel add(const Request& request) { return arithmetic("add", request, Add{}); }

Kernel multiply(const Request& request) { return arithmetic("multiply", request, Multiply{}); }

}  // namespace flow::cuda
