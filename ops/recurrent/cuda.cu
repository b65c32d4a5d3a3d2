// Kernels of the steps of recurrent layers and of their gradients: each step computes one product
// of all rows' states with the library, then runs one kernel for the gates. Most layers are a
// single call of the library instead.
#include <algorithm>
#include <string>
#include <vector>

#include "ops/core/cuda_launch.cuh"
#include "ops/recurrent/cuda_gates.cuh"
#include "ops/recurrent/cuda_library.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// One launch of all steps, with elements of type T.
template <typename T>
struct StepsRun {
  const StepOrder& order;
  const Buffers& buffers;
  const LaunchState& state;
  size_t library_workspace;

  T* array(size_t offset) const { return reinterpret_cast<T*>(buffers.workspace + offset); }
  const T* in(size_t i) const { return input<T>(buffers, i); }
  /// Returns null if no code reads the result.
  T* out(size_t i) const { return i < buffers.outputs.size() ? output<T>(buffers, i) : nullptr; }
  int64_t elements() const { return order.rows * order.units; }
  void copy(T* to, const T* from) const {
    if (to) state.driver.copy(to, from, static_cast<size_t>(elements()) * sizeof(T), state.stream);
  }
  void multiply(const LibraryKernel& kernel, const T* a, const T* b, T* to) const {
    kernel.run({reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b),
                nullptr, reinterpret_cast<std::byte*>(to), buffers.workspace + library_workspace},
               state.stream);
  }
  template <typename... Parameters>
  void each(const char* name, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... values) const {
    launch(state, name, shape_for(elements()), kernel, values...);
  }
};

/// The parts that launches of all kinds of steps share: the order of rows and steps, a check of
/// lengths, products and memory.
class StepsRequest {
 public:
  /// `weight` and `lengths` are indices of operands; operand `lengths` may be missing. Operand 0
  /// has all steps.
  StepsRequest(const Request& request, size_t weight, size_t lengths)
      : request_(request),
        lengths_(lengths),
        order_(RecurrentSteps(request.step.attributes, request.inputs[0].shape,
                              request.inputs[weight].shape)) {
    if (has_lengths()) check_ = add_check(request, request.inputs[lengths], order_.steps + 1);
  }

  const StepOrder& order() const { return order_; }
  DType dtype() const { return request_.inputs[0].dtype; }

  /// Returns the product out [N, n] = a [N, k] b. b is stored as [n, k] if `transpose` is set, and
  /// as [k, n] otherwise. `offset` is the offset of b in the weight, in elements.
  LibraryKernel product(int64_t n, int64_t k, bool transpose, int64_t offset = 0) {
    MatmulSpec spec{
        dtype(), {order_.rows, k}, transpose ? Shape{n, k} : Shape{k, n}, {order_.rows, n}};
    spec.transpose_b = transpose;
    spec.math_mode = request_.math_mode;
    const auto bytes = static_cast<uint64_t>(offset) * size_of(dtype()) | 256;
    spec.alignment = static_cast<uint32_t>(bytes & -bytes);
    const Expected<LibraryKernel> found = request_.libraries.find(spec);
    if (!found) throw found.error();
    name_ = found->name;
    library_bytes_ = std::max(library_bytes_, found->workspace);
    return *found;
  }

  /// Reserves an array (N, width) and returns its offset in the workspace.
  size_t array(int64_t width) {
    const size_t at = array_bytes_;
    array_bytes_ += round_up(static_cast<size_t>(order_.rows * width) * size_of(dtype()), 256);
    return at;
  }

  /// Returns a kernel that calls body(StepsRun<T>) after the check of lengths, where T is the dtype
  /// of the call. The workspace of library kernels follows the arrays.
  template <typename Body>
  Kernel kernel(Body body) const {
    return visit_float(dtype(), [&]<typename T>(T) {
      Kernel made;
      made.workspace = array_bytes_ + library_bytes_;
      made.name = name_own_kernel(request_.step, name_);
      made.launch = [=, library = array_bytes_, has = has_lengths(), at = lengths_, check = check_,
                     order = order_,
                     type = has_lengths() ? request_.inputs[lengths_].dtype : DType::kInt32](
                        const Buffers& buffers, const LaunchState& state) {
        StepOrder own = order;
        if (has) {
          own.lengths = {buffers.inputs[at], type};
          launch_check(state, "check_lengths", own.lengths, check);
        }
        body(StepsRun<T>{own, buffers, state, library});
      };
      return made;
    });
  }

 private:
  bool has_lengths() const { return lengths_ < request_.inputs.size(); }

  const Request& request_;
  size_t lengths_;
  StepOrder order_;
  RangeCheck check_{};
  size_t array_bytes_ = 0, library_bytes_ = 0;
  std::string name_;
};

/// Computes out, h, c, gates and cells from gates, weight, h0, c0 and lengths.
Kernel prepare_lstm_steps(const Request& request) {
  if (is_library_layer(request.step)) return prepare_library_layer(request);
  StepsRequest steps(request, 1, 4);
  const int64_t n = steps.order().units;
  const LibraryKernel product = steps.product(4 * n, n, true);
  const size_t h = steps.array(n), c = steps.array(n), w = steps.array(4 * n);
  return steps.kernel([=]<typename T>(const StepsRun<T>& run) {
    const StepOrder& order = run.order;
    run.copy(run.array(h), run.in(2));
    run.copy(run.array(c), run.in(3));
    const LstmStep<T> of{run.in(0),  run.array(w), run.array(h), run.array(c),
                         run.out(0), run.out(3),   run.out(4)};
    for (int64_t step = 0; step < order.steps; ++step) {
      run.multiply(product, run.array(h), run.in(1), run.array(w));
      run.each("lstm_step", lstm_step<T>, order, step, of);
    }
    run.copy(run.out(1), run.array(h));
    run.copy(run.out(2), run.array(c));
  });
}

/// Computes dgates, previous, dh0 and dc0 from dy, dh, dc, weight, h0, c0, out, gates, cells and
/// lengths.
Kernel prepare_lstm_steps_grad(const Request& request) {
  if (is_library_layer(request.step)) return prepare_library_layer_grad(request);
  StepsRequest steps(request, 3, 9);
  const int64_t n = steps.order().units;
  const LibraryKernel product = steps.product(n, 4 * n, false);
  const size_t dc = steps.array(n), back = steps.array(n), d = steps.array(4 * n);
  return steps.kernel([=]<typename T>(const StepsRun<T>& run) {
    const StepOrder& order = run.order;
    run.copy(run.array(dc), run.in(2));
    const LstmStepGrad<T> of{run.in(0),     run.in(1),    run.in(4),  run.in(5),
                             run.in(6),     run.in(7),    run.in(8),  run.array(back),
                             run.array(dc), run.array(d), run.out(0), run.out(1)};
    for (int64_t step = order.steps - 1; step >= 0; --step) {
      run.each("lstm_step_grad", lstm_step_grad<T>, order, step, of);
      run.multiply(product, run.array(d), run.in(3), run.array(back));
    }
    if (run.out(2))
      run.each("first_state_grad", first_state_grad<T>, order, run.in(1), run.array(back), false,
               run.out(2));
    run.copy(run.out(3), run.array(dc));
  });
}

/// Computes out, h and gates from gates, weight, bias, h0 and lengths.
Kernel prepare_gru_steps(const Request& request) {
  if (is_library_layer(request.step)) return prepare_library_layer(request);
  StepsRequest steps(request, 1, 4);
  const int64_t n = steps.order().units;
  const bool linear = attribute<bool>(request, "linear_before_reset");
  const LibraryKernel product = steps.product(linear ? 3 * n : 2 * n, n, true);
  const LibraryKernel next = linear ? LibraryKernel() : steps.product(n, n, true, 2 * n * n);
  const size_t h = steps.array(n), w = steps.array(3 * n), rh = steps.array(n),
               news = steps.array(n);
  return steps.kernel([=]<typename T>(const StepsRun<T>& run) {
    const StepOrder& order = run.order;
    run.copy(run.array(h), run.in(3));
    const GruStep<T> of{run.in(0),     run.in(2),  run.array(w), run.array(h),
                        run.array(rh), run.out(0), run.out(2),   linear};
    for (int64_t step = 0; step < order.steps; ++step) {
      run.multiply(product, run.array(h), run.in(1), run.array(w));
      if (!linear) {
        run.each("gru_reset", gru_reset<T>, order, step, of);
        run.multiply(next, run.array(rh), run.in(1) + 2 * n * n, run.array(news));
      }
      run.each("gru_step", gru_step<T>, order, step, of, run.array(news));
    }
    run.copy(run.out(1), run.array(h));
  });
}

/// Computes dgates, previous, dh0 and hidden from dy, dh, weight, h0, out, gates and lengths.
Kernel prepare_gru_steps_grad(const Request& request) {
  if (is_library_layer(request.step)) return prepare_library_layer_grad(request);
  StepsRequest steps(request, 2, 6);
  const int64_t n = steps.order().units;
  const bool linear = attribute<bool>(request, "linear_before_reset");
  const LibraryKernel product = steps.product(n, linear ? 3 * n : 2 * n, false);
  const LibraryKernel through = linear ? LibraryKernel() : steps.product(n, n, false, 2 * n * n);
  const size_t dh = steps.array(n), back = steps.array(n), d = steps.array(3 * n),
               dn = steps.array(n), u = steps.array(n);
  return steps.kernel([=]<typename T>(const StepsRun<T>& run) {
    const StepOrder& order = run.order;
    run.copy(run.array(dh), run.in(1));
    const GruStepGrad<T> of{run.in(0),       run.in(3),     run.in(4),    run.in(5),
                            run.array(back), run.array(dh), run.array(d), run.out(0),
                            run.out(1),      run.out(3),    linear};
    for (int64_t step = order.steps - 1; step >= 0; --step) {
      run.each("gru_step_grad", gru_step_grad<T>, order, step, of, run.array(dn));
      if (!linear) {
        run.multiply(through, run.array(dn), run.in(2) + 2 * n * n, run.array(u));
        run.each("gru_reset_grad", gru_reset_grad<T>, order, step, of, run.array(u));
      }
      run.multiply(product, run.array(d), run.in(2), run.array(back));
    }
    if (run.out(2))
      run.each("first_state_grad", first_state_grad<T>, order, run.array(dh), run.array(back), true,
               run.out(2));
  });
}

/// Computes out and h from gates, weight, h0 and lengths.
Kernel prepare_rnn_steps(const Request& request) {
  if (is_library_layer(request.step)) return prepare_library_layer(request);
  StepsRequest steps(request, 1, 3);
  const int64_t n = steps.order().units;
  const bool relu = attribute<std::string>(request, "activation") == "relu";
  const LibraryKernel product = steps.product(n, n, true);
  const size_t h = steps.array(n), w = steps.array(n);
  return steps.kernel([=]<typename T>(const StepsRun<T>& run) {
    const StepOrder& order = run.order;
    run.copy(run.array(h), run.in(2));
    const RnnStep<T> of{run.in(0), run.array(w), run.array(h), run.out(0), relu};
    for (int64_t step = 0; step < order.steps; ++step) {
      run.multiply(product, run.array(h), run.in(1), run.array(w));
      run.each("rnn_step", rnn_step<T>, order, step, of);
    }
    run.copy(run.out(1), run.array(h));
  });
}

/// Computes dgates, previous and dh0 from dy, dh, weight, h0, out and lengths.
Kernel prepare_rnn_steps_grad(const Request& request) {
  if (is_library_layer(request.step)) return prepare_library_layer_grad(request);
  StepsRequest steps(request, 2, 5);
  const int64_t n = steps.order().units;
  const bool relu = attribute<std::string>(request, "activation") == "relu";
  const LibraryKernel product = steps.product(n, n, false);
  const size_t back = steps.array(n), d = steps.array(n);
  return steps.kernel([=]<typename T>(const StepsRun<T>& run) {
    const StepOrder& order = run.order;
    const RnnStepGrad<T> of{run.in(0),    run.in(1),  run.in(3),  run.in(4), run.array(back),
                            run.array(d), run.out(0), run.out(1), relu};
    for (int64_t step = order.steps - 1; step >= 0; --step) {
      run.each("rnn_step_grad", rnn_step_grad<T>, order, step, of);
      run.multiply(product, run.array(d), run.in(2), run.array(back));
    }
    if (run.out(2))
      run.each("first_state_grad", first_state_grad<T>, order, run.in(1), run.array(back), false,
               run.out(2));
  });
}

}  // namespace

std::span<const KernelEntry> kernels::recurrent() {
  static constexpr KernelEntry kKernels[] = {
      {"lstm_steps", prepare_lstm_steps, Order::kOwn},
      {"lstm_steps_grad", prepare_lstm_steps_grad, Order::kOwn},
      {"gru_steps", prepare_gru_steps, Order::kOwn},
      {"gru_steps_grad", prepare_gru_steps_grad, Order::kOwn},
      {"rnn_steps", prepare_rnn_steps, Order::kOwn},
      {"rnn_steps_grad", prepare_rnn_steps_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
