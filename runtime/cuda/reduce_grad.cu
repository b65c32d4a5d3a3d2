// Gradients of reductions that look at the elements again: of the largest and the smallest, and of
// products. A thread for each result, since the elements' order counts.
#include "runtime/cuda/fold_plan.h"
#include "runtime/cuda/operands.h"
#include "runtime/cuda/threads.cuh"

namespace flow::cuda {
namespace {

/// dx = dy where the first element equal to the result is, or the first NaN.
template <typename T>
__global__ void extreme_grad(Folds folds, const T* dy, const T* x, const T* y, T* dx) {
  for (int64_t output = first_index(); output < folds.outputs; output += index_step()) {
    const int64_t at = folds.kept.at(output).of[0];
    bool found = false;
    for (int64_t i = 0; i < folds.terms; ++i) {
      const int64_t k = at + folds.reduced.at(i).of[0];
      const bool hit = !found && (x[k] == y[output] || x[k] != x[k]);
      found |= hit;
      dx[k] = hit ? dy[output] : T{0};
    }
  }
}

/// dx = dy times the product of the other elements, exact with zeros: of one zero only its own
/// gradient is not 0, of more none.
template <typename T>
__global__ void prod_grad(Folds folds, const T* dy, const T* x, T* dx) {
  for (int64_t output = first_index(); output < folds.outputs; output += index_step()) {
    const int64_t at = folds.kept.at(output).of[0];
    double product = 1;
    int64_t zeros = 0;
    for (int64_t i = 0; i < folds.terms; ++i) {
      const T value = x[at + folds.reduced.at(i).of[0]];
      zeros += value == 0 ? 1 : 0;
      product *= value == 0 ? 1.0 : static_cast<double>(value);
    }
    for (int64_t i = 0; i < folds.terms; ++i) {
      const int64_t k = at + folds.reduced.at(i).of[0];
      const bool zero = x[k] == 0;
      const double others = product / (zero ? 1.0 : static_cast<double>(x[k]));
      const bool none = zeros > (zero ? 1 : 0);
      dx[k] = none ? T{0} : static_cast<T>(static_cast<double>(dy[output]) * others);
    }
  }
}

FoldPlan plan_of(const Request& request) {
  const Shape& x = request.inputs[1].shape;
  return {x, reduced_axes(request, x)};
}

}  // namespace

Kernel reduce_extreme_grad(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    return {[folds = plan_of(request).folds](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "reduce_extreme_grad", shape_for(folds.outputs),
             extreme_grad<T>, folds, input<T>(buffers, 0), input<T>(buffers, 1),
             input<T>(buffers, 2), output<T>(buffers, 0));
    }};
  });
}

Kernel reduce_prod_grad(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    return {[folds = plan_of(request).folds](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "reduce_prod_grad", shape_for(folds.outputs), prod_grad<T>,
             folds, input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0));
    }};
  });
}

}  // namespace flow::cuda
