// Cross entropy of softmax, row by row, exact however large the logits x are. Of labels: loss =
// logsumexp(x) - x[label], gradient dy (softmax(x) - onehot). Of probabilities z: loss =
// sum z (logsumexp(x) - x), gradient dy (sum(z) softmax(x) - z).
#include <limits>

#include "ops/core/cpu_labels.h"
#include "ops/softmax/cpu_row.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

/// The row's loss; NaN where the label is out of range, which stops the run.
float loss_row(const float* x, float* prob, int64_t classes, int64_t label) {
  const RowSum row = softmax_and_sum(x, prob, classes);
  if (label < 0 || label >= classes) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(row.log_sum +
                            (static_cast<double>(row.max) - static_cast<double>(x[label])));
}

Kernel prepare_sparse(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &logits = request.inputs[1];
  const int64_t classes = logits.shape[logits.shape.rank() - 1];
  const int64_t rows = labels.shape.elements();
  const bool keeps_prob = request.outputs[1].used;
  Kernel kernel;
  // Without a reader of prob each thread still needs a row to put it in.
  if (!keeps_prob)
    kernel.workspace = static_cast<size_t>(request.threads * classes) * sizeof(float);
  kernel.launch = [=, threads = request.threads, check = LabelCheck(request, labels, classes)](
                      const Buffers& buffers, const CallState& state) {
    check.run(buffers.inputs[0], state);
    const float* x = input<float>(buffers, 1);
    float* loss = output<float>(buffers, 0);
    const int64_t rows_a_piece = std::max<int64_t>(1, kPiece / 4 / classes);
    parallel_for(threads, ceil_div(rows, rows_a_piece), [&](int64_t piece, int worker) {
      float* spare = reinterpret_cast<float*>(buffers.workspace) + worker * classes;
      const int64_t end = std::min(rows, (piece + 1) * rows_a_piece);
      for (int64_t row = piece * rows_a_piece; row < end; ++row) {
        float* prob = keeps_prob ? output<float>(buffers, 1) + row * classes : spare;
        const int64_t label = integer_at(check.dtype, buffers.inputs[0], row);
        loss[row] = loss_row(x + row * classes, prob, classes, label);
      }
    });
  };
  return kernel;
}

Kernel prepare_sparse_grad(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &prob = request.inputs[1];
  const int64_t classes = prob.shape[prob.shape.rank() - 1];
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, rows = labels.shape.elements(),
                   dtype = labels.dtype](const Buffers& buffers, const CallState&) {
    const float *p = input<float>(buffers, 1), *dy = input<float>(buffers, 2);
    float* dx = output<float>(buffers, 0);
    for_pieces(threads, rows, std::max<int64_t>(1, kPiece / classes),
               [&](int64_t first, int64_t end) {
                 for (int64_t row = first; row < end; ++row) {
                   const int64_t at = row * classes;
                   const int64_t label = integer_at(dtype, buffers.inputs[0], row);
                   const bool known = label >= 0 && label < classes;
                   const float target = known ? p[at + label] : 0.0f;
                   scale_to(p + at, dy[row], dx + at, classes);
                   if (known) dx[at + label] = dy[row] * (target - 1.0f);
                 }
               });
  };
  return kernel;
}

/// sum z ((max - x) + log_sum)
FLOW_VECTORIZED double weighted_sum(const float* z, const float* x, RowSum row, int64_t n) {
  const auto max = static_cast<double>(row.max);
  return sum_of_terms<double>(n, [=](int64_t i) {
    return static_cast<double>(z[i]) * ((max - static_cast<double>(x[i])) + row.log_sum);
  });
}

FLOW_VECTORIZED double sum_of(const float* z, int64_t n) {
  return sum_of_terms<double>(n, [=](int64_t i) { return static_cast<double>(z[i]); });
}

/// dx = dy (sum p - z)
FLOW_VECTORIZED void gradient_row(const float* z, const float* p, float sum, float dy, float* dx,
                                  int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy * (sum * p[i] - z[i]);
}

/// [rows, classes]
struct Sizes {
  int64_t rows, classes;

  explicit Sizes(const TensorDesc& logits)
      : rows(logits.shape.elements(0, logits.shape.rank() - 1)),
        classes(logits.shape[logits.shape.rank() - 1]) {}
  int64_t rows_a_piece() const { return std::max<int64_t>(1, kPiece / 4 / classes); }
};

Kernel prepare_dense(const Request& request) {
  const Sizes sizes(request.inputs[1]);
  const bool keeps_prob = request.outputs[1].used;
  Kernel kernel;
  // Without a reader of prob each thread still needs a row to put it in.
  if (!keeps_prob)
    kernel.workspace = static_cast<size_t>(request.threads * sizes.classes) * sizeof(float);
  kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
    const float *z = input<float>(buffers, 0), *x = input<float>(buffers, 1);
    const int64_t rows_a_piece = sizes.rows_a_piece(), n = sizes.classes;
    parallel_for(threads, ceil_div(sizes.rows, rows_a_piece), [&](int64_t piece, int worker) {
      float* spare = reinterpret_cast<float*>(buffers.workspace) + worker * n;
      const int64_t end = std::min(sizes.rows, (piece + 1) * rows_a_piece);
      for (int64_t row = piece * rows_a_piece; row < end; ++row) {
        float* prob = keeps_prob ? output<float>(buffers, 1) + row * n : spare;
        const RowSum sum = softmax_and_sum(x + row * n, prob, n);
        output<float>(buffers, 0)[row] =
            static_cast<float>(weighted_sum(z + row * n, x + row * n, sum, n));
      }
    });
  };
  return kernel;
}

Kernel prepare_dense_grad(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, sizes = Sizes(request.inputs[1])](
                      const Buffers& buffers, const CallState&) {
    const float *z = input<float>(buffers, 0), *p = input<float>(buffers, 1);
    const float* dy = input<float>(buffers, 2);
    for_pieces(threads, sizes.rows, sizes.rows_a_piece(), [&](int64_t first, int64_t end) {
      for (int64_t row = first; row < end; ++row) {
        const int64_t at = row * sizes.classes;
        const auto sum = static_cast<float>(sum_of(z + at, sizes.classes));
        gradient_row(z + at, p + at, sum, dy[row], output<float>(buffers, 0) + at, sizes.classes);
      }
    });
  };
  return kernel;
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
