// sparse_softmax_cross_entropy_with_logits: loss = logsumexp(logits) - logits[label], row by row,
// exact however large the logits are; its gradient: dy * (softmax - onehot).
#include <cmath>

#include "runtime/cuda/loops/check_range.cuh"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/rows.cuh"

namespace flow::cuda {
namespace {

struct Sizes {
  int64_t rows, classes;
};

/// A team of kTeam threads for each row; one block more for the check of the labels. prob may be
/// null. The sum is in double: beside the largest element's 1 a float's would lose the others.
template <typename T, int kTeam>
__global__ void loss_forward(Integers labels, const T* logits, Sizes sizes, T* loss, T* prob,
                             int32_t check, FaultBlock* fault) {
  const unsigned blocks = gridDim.x - 1;
  if (blockIdx.x == blocks) return check_range(labels, sizes.rows, sizes.classes, check, fault);
  const auto make_row = [&](int64_t row, int lane) {
    const T* x = logits + row * sizes.classes;
    T* p = prob ? prob + row * sizes.classes : nullptr;
    T largest = -static_cast<T>(INFINITY);
    for (int64_t i = lane; i < sizes.classes; i += kTeam) largest = Larger{}(largest, x[i]);
    largest = over_team<kTeam>(largest, Larger{});
    double sum = 0;
    for (int64_t i = lane; i < sizes.classes; i += kTeam) {
      const T e = std::exp(x[i] - largest);
      if (p) p[i] = e;
      sum += static_cast<double>(e);
    }
    sum = over_team<kTeam>(sum, Sum{});
    if (p) {
      const auto factor = static_cast<T>(1.0 / sum);
      for (int64_t i = lane; i < sizes.classes; i += kTeam) p[i] *= factor;
    }
    if (lane > 0) return;
    const int64_t label = labels[row];
    const bool known = label >= 0 && label < sizes.classes;
    loss[row] = known ? static_cast<T>(std::log(sum) + (static_cast<double>(largest) -
                                                        static_cast<double>(x[label])))
                      : static_cast<T>(NAN);
  };
  for_rows<kTeam>(sizes.rows, make_row, blocks);
}

/// dx = dy * (prob - onehot); no class of a label out of range is hit.
template <typename T>
__global__ void loss_backward(Integers labels, const T* prob, const T* dy, Sizes sizes, T* dx) {
  const int64_t n = sizes.rows * sizes.classes;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t row = i / sizes.classes;
    const bool hit = labels[row] == i - row * sizes.classes;
    dx[i] = dy[row] * (prob[i] - (hit ? T{1} : T{0}));
  }
}

Sizes sizes_of(const TensorDesc& labels, const TensorDesc& logits) {
  return {labels.shape.elements(), logits.shape[logits.shape.rank() - 1]};
}

template <typename T>
Launch loss_launch(DType label_dtype, Sizes sizes, int32_t check) {
  LaunchShape shape = shape_for_rows(sizes.rows, sizes.classes);
  ++shape.grid.x;  // the check
  const auto kernel =
      is_long_row(sizes.classes) ? loss_forward<T, kThreads> : loss_forward<T, kWarp>;
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "loss", shape, kernel,
           Integers{buffers.inputs[0], label_dtype}, input<T>(buffers, 1), sizes,
           output<T>(buffers, 0), output<T>(buffers, 1), check, state.fault);
  };
}

}  // namespace

Kernel sparse_softmax_cross_entropy_with_logits(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &logits = request.inputs[1];
  const Sizes sizes = sizes_of(labels, logits);
  request.checks.push_back({request.step.where, std::string(labels.name), sizes.classes});
  const auto check = static_cast<int32_t>(request.checks.size());
  return visit_float(logits.dtype, [&]<typename T>(T) -> Kernel {
    return {loss_launch<T>(labels.dtype, sizes, check)};
  });
}

Kernel sparse_softmax_cross_entropy_with_logits_grad(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &prob = request.inputs[1];
  return visit_float(prob.dtype, [&]<typename T>(T) -> Kernel {
    return {[dtype = labels.dtype, sizes = sizes_of(labels, prob), n = prob.shape.elements()](
                const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "loss_grad", shape_for(n), loss_backward<T>,
             Integers{buffers.inputs[0], dtype}, input<T>(buffers, 1), input<T>(buffers, 2), sizes,
             output<T>(buffers, 0));
    }};
  });
}

}  // namespace flow::cuda
