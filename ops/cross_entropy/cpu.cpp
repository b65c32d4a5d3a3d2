// Cross entropy of softmax, computed row by row and accurate for logits x of any size. With labels:
// loss = logsumexp(x) - x[label], gradient dy (softmax(x) - onehot). With probabilities z: loss =
// sum z (logsumexp(x) - x), gradient dy (sum(z) softmax(x) - z).
#include <limits>

#include "ops/core/cpu_labels.h"
#include "ops/softmax/cpu_row.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

/// The sizes of logits (rows, classes).
struct Sizes {
  int64_t rows, classes;

  explicit Sizes(const TensorDesc& logits)
      : rows(logits.shape.elements(0, logits.shape.rank() - 1)),
        classes(logits.shape[logits.shape.rank() - 1]) {}
};

/// Returns a kernel of losses. loss_of(buffers, row, x, sum) is the loss of a row with the logits x
/// and their log-sum-exp `sum`. The second result is softmax(x).
template <typename Loss>
Kernel losses_of_rows(const Request& request, Loss loss_of) {
  const Sizes sizes(request.inputs[1]);
  const int64_t n = sizes.classes;
  const bool keeps_prob = request.outputs[1].used;
  Kernel kernel = by_rows(request, sizes.rows, 4 * n, [=](const Piece& piece, int64_t row) {
    const Buffers& buffers = piece.buffers;
    float* prob = keeps_prob ? output<float>(buffers, 1) + row * n
                             : reinterpret_cast<float*>(buffers.workspace) + piece.worker * n;
    const float* x = input<float>(buffers, 1) + row * n;
    output<float>(buffers, 0)[row] =
        static_cast<float>(loss_of(buffers, row, x, softmax_and_sum(x, prob, n)));
  });
  // If nothing reads prob, each thread still needs a row of workspace for it.
  if (!keeps_prob) kernel.workspace = static_cast<size_t>(request.threads * n) * sizeof(float);
  return kernel;
}

/// Returns the loss of a row, or NaN if the label is out of range, which stops the run.
double loss_of_label(const float* x, const RowSum& sum, int64_t classes, int64_t label) {
  if (label < 0 || label >= classes) return std::numeric_limits<double>::quiet_NaN();
  return sum.log_sum + (static_cast<double>(sum.max) - static_cast<double>(x[label]));
}

Kernel prepare_sparse(const Request& request) {
  const int64_t classes = Sizes(request.inputs[1]).classes;
  const auto loss = [classes, dtype = request.inputs[0].dtype](const Buffers& buffers, int64_t row,
                                                               const float* x, const RowSum& sum) {
    return loss_of_label(x, sum, classes, integer_at(dtype, buffers.inputs[0], row));
  };
  return checked(request, 0, classes, losses_of_rows(request, loss));
}

Kernel prepare_sparse_grad(const Request& request) {
  const Sizes sizes(request.inputs[1]);
  return by_rows(
      request, sizes.rows, sizes.classes,
      [n = sizes.classes, dtype = request.inputs[0].dtype](const Piece& piece, int64_t row) {
        const float* p = input<float>(piece.buffers, 1) + row * n;
        const float dy = input<float>(piece.buffers, 2)[row];
        float* dx = output<float>(piece.buffers, 0) + row * n;
        const int64_t label = integer_at(dtype, piece.buffers.inputs[0], row);
        const bool known = label >= 0 && label < n;
        const float target = known ? p[label] : 0.0f;
        scale_to(p, dy, dx, n);
        if (known) dx[label] = dy * (target - 1.0f);
      });
}

/// Returns sum z ((max - x) + log_sum).
FLOW_VECTORIZED double weighted_sum(const float* z, const float* x, RowSum row, int64_t n) {
  const auto max = static_cast<double>(row.max);
  return sum_of_terms<double>(n, [=](int64_t i) {
    return static_cast<double>(z[i]) * ((max - static_cast<double>(x[i])) + row.log_sum);
  });
}

FLOW_VECTORIZED double sum_of(const float* z, int64_t n) {
  return sum_of_terms<double>(n, [=](int64_t i) { return static_cast<double>(z[i]); });
}

/// Computes dx = dy (sum p - z).
FLOW_VECTORIZED void gradient_row(const float* z, const float* p, float sum, float dy, float* dx,
                                  int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy * (sum * p[i] - z[i]);
}

Kernel prepare_dense(const Request& request) {
  return losses_of_rows(request,
                        [n = Sizes(request.inputs[1]).classes](const Buffers& buffers, int64_t row,
                                                               const float* x, const RowSum& sum) {
                          return weighted_sum(input<float>(buffers, 0) + row * n, x, sum, n);
                        });
}

Kernel prepare_dense_grad(const Request& request) {
  const Sizes sizes(request.inputs[1]);
  return by_rows(
      request, sizes.rows, 4 * sizes.classes, [n = sizes.classes](const Piece& piece, int64_t row) {
        const float* z = input<float>(piece.buffers, 0) + row * n;
        const float* p = input<float>(piece.buffers, 1) + row * n;
        gradient_row(z, p, static_cast<float>(sum_of(z, n)), input<float>(piece.buffers, 2)[row],
                     output<float>(piece.buffers, 0) + row * n, n);
      });
}

}  // namespace

std::span<const KernelEntry> cross_entropy() {
  static constexpr KernelEntry kKernels[] = {
      {"sparse_softmax_cross_entropy_with_logits", prepare_sparse},
      {"softmax_cross_entropy_with_logits", prepare_dense},
      {"softmax_cross_entropy_with_logits_grad", prepare_dense_grad},
      {"sparse_softmax_cross_entropy_with_logits_grad", prepare_sparse_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
