// softmax_cross_entropy_with_logits: loss = sum z (logsumexp(x) - x), row by row, exact however
// large the logits x are; its gradient: dy (sum(z) softmax(x) - z).
#include "runtime/base/ceil_div.h"
#include "runtime/cpu/kernels/softmax_row.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// sum z ((max - x) + log_sum)
FLOW_VECTORISED double weighted_sum(const float* z, const float* x, RowSum row, int64_t n) {
  const auto max = static_cast<double>(row.max);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(z[i]) * ((max - static_cast<double>(x[i])) + row.log_sum);
  return sum;
}

FLOW_VECTORISED double sum_of(const float* z, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(z[i]);
  return sum;
}

/// dx = dy (sum p - z)
FLOW_VECTORISED void gradient_row(const float* z, const float* p, float sum, float dy, float* dx,
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

}  // namespace

Kernel softmax_cross_entropy_with_logits(const Request& request) {
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

Kernel softmax_cross_entropy_with_logits_grad(const Request& request) {
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

}  // namespace flow::cpu::fast
