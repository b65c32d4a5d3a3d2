// Softmax cross-entropy, computed row by row and accurate for logits x of any size. With class
// labels: loss = logsumexp(x) - x[label], dx = dy (softmax(x) - onehot). With class probabilities
// z: loss = sum z (logsumexp(x) - x), dx = dy (sum(z) softmax(x) - z).
#include <cmath>

#include "runtime/base/vector_math.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/loops.h"

namespace flow::cuda {
namespace {

struct Sizes {
  int64_t rows, classes;
};

Sizes sizes_of(const TensorDesc& logits) {
  const int64_t classes = logits.shape[logits.shape.rank() - 1];
  return {logits.shape.elements() / classes, classes};
}

/// Computes the losses with one team of kTeam threads per row, and checks the labels in one
/// additional block. prob may be null. The sum is in double, because the term 1 of the largest
/// logit would absorb small terms of a float sum.
template <typename T, int kTeam>
__global__ void sparse_rows(Integers labels, const T* logits, Sizes sizes, T* loss, T* prob,
                            RangeCheck check, const CallBlock* call, FaultBlock* fault) {
  const unsigned blocks = gridDim.x - 1;
  if (blockIdx.x == blocks) return check_range(labels, check, call, fault);
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

/// Computes dx = dy * (prob - onehot). A label out of range matches no class.
template <typename T>
__global__ void sparse_grad(Integers labels, const T* prob, const T* dy, Sizes sizes,
                            Divider by_classes, T* dx) {
  const int64_t n = sizes.rows * sizes.classes;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t row = n < kNarrow ? by_classes.divide(static_cast<int32_t>(i)).quotient
                                    : by_classes.divide(i).quotient;
    const bool hit = labels[row] == i - row * sizes.classes;
    dx[i] = dy[row] * (prob[i] - (hit ? T{1} : T{0}));
  }
}

/// Computes the losses with one team per row. prob may be null. Sums are in double, as in
/// sparse_rows.
template <typename T, int kTeam>
__global__ void dense_rows(const T* labels, const T* logits, Sizes sizes, T* loss, T* prob) {
  for_rows<kTeam>(sizes.rows, [&](int64_t row, int lane) {
    const int64_t n = sizes.classes;
    const T *z = labels + row * n, *x = logits + row * n;
    T max = -static_cast<T>(INFINITY);
    for (int64_t i = lane; i < n; i += kTeam) max = Larger{}(max, x[i]);
    max = over_team<kTeam>(max, Larger{});
    double sum = 0;
    for (int64_t i = lane; i < n; i += kTeam) sum += static_cast<double>(math::exp(x[i] - max));
    sum = over_team<kTeam>(sum, Sum{});
    const double log_sum = std::log(sum), top = static_cast<double>(max);
    const auto factor = static_cast<T>(1.0 / sum);
    double own = 0;
    for (int64_t i = lane; i < n; i += kTeam) {
      own += static_cast<double>(z[i]) * ((top - static_cast<double>(x[i])) + log_sum);
      if (prob) prob[row * n + i] = math::exp(x[i] - max) * factor;
    }
    own = over_team<kTeam>(own, Sum{});
    if (lane == 0) loss[row] = static_cast<T>(own);
  });
}

template <typename T, int kTeam>
__global__ void dense_grad_rows(const T* labels, const T* prob, const T* dy, Sizes sizes, T* dx) {
  for_rows<kTeam>(sizes.rows, [&](int64_t row, int lane) {
    const int64_t at = row * sizes.classes, n = sizes.classes;
    double own = 0;
    for (int64_t i = lane; i < n; i += kTeam) own += static_cast<double>(labels[at + i]);
    const auto sum = static_cast<T>(over_team<kTeam>(own, Sum{}));
    for (int64_t i = lane; i < n; i += kTeam)
      dx[at + i] = dy[row] * (sum * prob[at + i] - labels[at + i]);
  });
}

Kernel prepare_sparse(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &logits = request.inputs[1];
  const Sizes sizes = sizes_of(logits);
  LaunchShape shape = shape_for_rows(sizes.rows, sizes.classes);
  ++shape.grid.x;  // adds the block that checks the labels
  return visit_float(logits.dtype, [&]<typename T>(T) -> Kernel {
    const auto kernel =
        is_long_row(sizes.classes) ? sparse_rows<T, kThreads> : sparse_rows<T, kWarp>;
    return {[=, dtype = labels.dtype, check = add_check(request, labels, sizes.classes)](
                const Buffers& buffers, const LaunchState& state) {
      launch(state, "loss", shape, kernel, Integers{buffers.inputs[0], dtype}, input<T>(buffers, 1),
             sizes, output<T>(buffers, 0), output<T>(buffers, 1), check, state.call, state.fault);
    }};
  });
}

Kernel prepare_sparse_grad(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &prob = request.inputs[1];
  return visit_float(prob.dtype, [&]<typename T>(T) -> Kernel {
    return {[dtype = labels.dtype, sizes = sizes_of(prob), n = prob.shape.elements()](
                const Buffers& buffers, const LaunchState& state) {
      launch(state, "loss_grad", shape_for(n), sparse_grad<T>, Integers{buffers.inputs[0], dtype},
             input<T>(buffers, 1), input<T>(buffers, 2), sizes, Divider(sizes.classes),
             output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_dense(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    const Sizes sizes = sizes_of(request.inputs[1]);
    const auto kernel = is_long_row(sizes.classes) ? dense_rows<T, kThreads> : dense_rows<T, kWarp>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, "cross_entropy", shape_for_rows(sizes.rows, sizes.classes), kernel,
             input<T>(buffers, 0), input<T>(buffers, 1), sizes, output<T>(buffers, 0),
             output<T>(buffers, 1));
    }};
  });
}

Kernel prepare_dense_grad(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    const Sizes sizes = sizes_of(request.inputs[1]);
    const auto kernel =
        is_long_row(sizes.classes) ? dense_grad_rows<T, kThreads> : dense_grad_rows<T, kWarp>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, "cross_entropy_grad", shape_for_rows(sizes.rows, sizes.classes), kernel,
             input<T>(buffers, 0), input<T>(buffers, 1), input<T>(buffers, 2), sizes,
             output<T>(buffers, 0));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::cross_entropy() {
  static constexpr KernelEntry kKernels[] = {
      {"sparse_softmax_cross_entropy_with_logits", prepare_sparse, Order::kOwn},
      {"softmax_cross_entropy_with_logits", prepare_dense, Order::kOwn},
      {"softmax_cross_entropy_with_logits_grad", prepare_dense_grad, Order::kOwn},
      {"sparse_softmax_cross_entropy_with_logits_grad", prepare_sparse_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
