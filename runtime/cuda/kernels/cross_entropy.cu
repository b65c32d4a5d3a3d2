// softmax_cross_entropy_with_logits: loss = sum z (logsumexp(x) - x), row by row, exact however
// large the logits x are; its gradient: dy (sum(z) softmax(x) - z). A warp or a block for each row.
#include "runtime/base/vector_math.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/rows.cuh"

namespace flow::cuda {
namespace {

struct Sizes {
  int64_t rows, classes;
};

/// prob may be null. Sums are in double: beside the largest element's 1 a float's would lose the
/// others.
template <typename T, int kTeam>
__global__ void cross_entropy_rows(const T* labels, const T* logits, Sizes sizes, T* loss,
                                   T* prob) {
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
__global__ void cross_entropy_grad_rows(const T* labels, const T* prob, const T* dy, Sizes sizes,
                                        T* dx) {
  for_rows<kTeam>(sizes.rows, [&](int64_t row, int lane) {
    const int64_t at = row * sizes.classes, n = sizes.classes;
    double own = 0;
    for (int64_t i = lane; i < n; i += kTeam) own += static_cast<double>(labels[at + i]);
    const auto sum = static_cast<T>(over_team<kTeam>(own, Sum{}));
    for (int64_t i = lane; i < n; i += kTeam)
      dx[at + i] = dy[row] * (sum * prob[at + i] - labels[at + i]);
  });
}

Sizes sizes_of(const TensorDesc& logits) {
  const int64_t classes = logits.shape[logits.shape.rank() - 1];
  return {logits.shape.elements() / classes, classes};
}

}  // namespace

Kernel softmax_cross_entropy_with_logits(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    const Sizes sizes = sizes_of(request.inputs[1]);
    const auto kernel =
        is_long_row(sizes.classes) ? cross_entropy_rows<T, kThreads> : cross_entropy_rows<T, kWarp>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "cross_entropy", shape_for_rows(sizes.rows, sizes.classes),
             kernel, input<T>(buffers, 0), input<T>(buffers, 1), sizes, output<T>(buffers, 0),
             output<T>(buffers, 1));
    }};
  });
}

Kernel softmax_cross_entropy_with_logits_grad(const Request& request) {
  return visit_float(request.inputs[1].dtype, [&]<typename T>(T) -> Kernel {
    const Sizes sizes = sizes_of(request.inputs[1]);
    const auto kernel = is_long_row(sizes.classes) ? cross_entropy_grad_rows<T, kThreads>
                                                   : cross_entropy_grad_rows<T, kWarp>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "cross_entropy_grad",
             shape_for_rows(sizes.rows, sizes.classes), kernel, input<T>(buffers, 0),
             input<T>(buffers, 1), input<T>(buffers, 2), sizes, output<T>(buffers, 0));
    }};
  });
}

}  // namespace flow::cuda
