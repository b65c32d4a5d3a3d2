// sparse_softmax_cross_entropy_with_logits: loss = logsumexp(logits) - logits[label], row by row,
// exact however large the logits are; its gradient: dy * (softmax - onehot).
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/cpu/features.h"
#include "runtime/cpu/labels.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

/// e^x for x <= 0, within 2 units in the last place; 0 below -87.33, where floats become denormal.
/// NaN stays NaN. x = k ln 2 + r, |r| <= ln 2 / 2; e^r by Taylor's polynomial. Selects by bits,
/// since of conditionals on floats GCC makes branches, and no vectors.
[[gnu::always_inline]] inline float exp_of_nonpositive(float x) {
  constexpr uint32_t kSmallest = std::bit_cast<uint32_t>(-87.33f);
  constexpr uint32_t kMinusInfinity = 0xFF800000;
  constexpr float kLog2E = 1.44269504f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t below =
      uint32_t{0} - static_cast<uint32_t>(bits - kSmallest <= kMinusInfinity - kSmallest);
  const auto raised = std::bit_cast<float>((bits & ~below) | (kSmallest & below));
  const float shifted = raised * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (raised - k * kLn2High) - k * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  const float e = (p * r * r + r) + 1.0f;
  // The integer k stands in the low bits of `shifted`; as an exponent it makes 2^k.
  const auto power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(e * power) & ~below);
}

FLOW_VECTORISED float largest(const float* x, int64_t n) {
  float best = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

/// e = exp(x - shift); returns their sum, in double: beside the largest element's 1 a float32 sum
/// would lose the others, which small losses consist of.
FLOW_VECTORISED double exp_and_sum(const float* x, float shift, float* e, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float value = exp_of_nonpositive(x[i] - shift);
    e[i] = value;
    sum += static_cast<double>(value);
  }
  return sum;
}

FLOW_VECTORISED void multiply_all(float* x, float factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

/// dx = p * dy
FLOW_VECTORISED void scaled_copy(const float* p, float dy, float* dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy * p[i];
}

/// logsumexp(x) = max + log_sum
struct RowSum {
  float max;
  double log_sum;
};

/// prob = softmax(x)
RowSum softmax_row(const float* x, float* prob, int64_t classes) {
  const float max = largest(x, classes);
  const double sum = exp_and_sum(x, max, prob, classes);
  multiply_all(prob, static_cast<float>(1.0 / sum), classes);
  return {max, std::log(sum)};
}

/// The same for less than kShort classes, in whole vectors: what is left over of a loop's vectors
/// runs element by element, and of ten classes that is all.
constexpr int64_t kShort = 64, kLanes = 16;
RowSum softmax_short_row(const float* x, float* prob, int64_t classes) {
  float padded[kShort];
  const int64_t width = (classes + kLanes - 1) / kLanes * kLanes;
  std::copy_n(x, classes, padded);
  std::fill_n(padded + classes, width - classes, -std::numeric_limits<float>::infinity());
  const RowSum row = softmax_row(padded, padded, width);
  std::copy_n(padded, classes, prob);
  return row;
}

/// The row's loss; NaN where the label is out of range, which stops the run.
float loss_row(const float* x, float* prob, int64_t classes, int64_t label) {
  const RowSum row =
      classes < kShort ? softmax_short_row(x, prob, classes) : softmax_row(x, prob, classes);
  if (label < 0 || label >= classes) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(row.log_sum +
                            (static_cast<double>(row.max) - static_cast<double>(x[label])));
}

}  // namespace

Kernel sparse_softmax_cross_entropy_with_logits(const Request& request) {
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
    parallel_for(threads, pieces_of(rows, rows_a_piece), [&](int64_t piece, int worker) {
      float* spare = reinterpret_cast<float*>(buffers.workspace) + worker * classes;
      const int64_t end = std::min(rows, (piece + 1) * rows_a_piece);
      for (int64_t row = piece * rows_a_piece; row < end; ++row) {
        float* prob = keeps_prob ? output<float>(buffers, 1) + row * classes : spare;
        const int64_t label = label_at(check.dtype, buffers.inputs[0], row);
        loss[row] = loss_row(x + row * classes, prob, classes, label);
      }
    });
  };
  return kernel;
}

Kernel sparse_softmax_cross_entropy_with_logits_grad(const Request& request) {
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
                   const int64_t label = label_at(dtype, buffers.inputs[0], row);
                   const bool known = label >= 0 && label < classes;
                   const float target = known ? p[at + label] : 0.0f;
                   scaled_copy(p + at, dy[row], dx + at, classes);
                   if (known) dx[at + label] = dy[row] * (target - 1.0f);
                 }
               });
  };
  return kernel;
}

}  // namespace flow::cpu::fast
