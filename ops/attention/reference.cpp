// Reference kernels of scaled dot product attention and its gradients, computed query by query in
// double.
#include <cmath>
#include <limits>
#include <optional>

#include "ops/attention/problem.h"
#include "ops/core/cpu_labels.h"
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct Attended : ops::AttentionExtents {
  Attended(const Request& request, bool gradients)
      : Attended(request, ops::AttentionOperands::of(request, gradients)) {}
  Attended(const Request& request, const ops::AttentionOperands& at)
      : AttentionExtents(request, at), operands(at), scores(request.inputs[at.query].shape) {
    scores[scores.rank() - 1] = keys;
    if (operands.mask) mask_shape = request.inputs[*operands.mask].shape;
    if (operands.bias) bias_shape = request.inputs[*operands.bias].shape;
    if (!operands.lengths) return;
    lengths.emplace(request, request.inputs[*operands.lengths], keys + 1);
    batches_of_length = batches / lengths->rows;
  }

  void check(const Buffers& buffers, const CallState& state) const {
    if (lengths) lengths->run(buffers.inputs[*operands.lengths], state);
  }

  int64_t score_index(int64_t b, int64_t i, int64_t j) const {
    return (b * queries + i) * keys + j;
  }

  /// Returns true if query i of batch b sees key j.
  bool sees(const Buffers& buffers, int64_t b, int64_t i, int64_t j) const {
    const int64_t last = i + diagonal;
    if (causal && (j > last || j <= last - window)) return false;
    if (lengths &&
        j >= integer_at(lengths->dtype, buffers.inputs[*operands.lengths], b / batches_of_length))
      return false;
    if (!operands.mask) return true;
    return input<bool>(buffers,
                       *operands.mask)[operand_index(scores, score_index(b, i, j), mask_shape)];
  }

  int64_t bias_index(int64_t b, int64_t i, int64_t j) const {
    return operand_index(scores, score_index(b, i, j), bias_shape);
  }
  template <typename T>
  double bias(const Buffers& buffers, int64_t b, int64_t i, int64_t j) const {
    return operands.bias ? double_at<T>(buffers, *operands.bias, bias_index(b, i, j)) : 0;
  }

  ops::AttentionOperands operands;
  int64_t batches_of_length = 1;
  Shape scores, mask_shape, bias_shape;  // the last two broadcast to (..., queries, keys)
  std::optional<LabelCheck> lengths;
};

template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Computes scores[j] = scale * query . key j + bias, or -inf if the query does not see key j. A
/// bias of -inf hides a key, regardless of the product.
template <typename T>
void score(const Attended& at, const Buffers& buffers, int64_t batch, int64_t i, const T* query,
           const T* keys, double* scores) {
  for (int64_t j = 0; j < at.keys; ++j) {
    const double bias = at.sees(buffers, batch, i, j) ? at.bias<T>(buffers, batch, i, j) : kHidden;
    scores[j] =
        bias == kHidden ? kHidden : at.scale * dot(query, keys + j * at.depth, at.depth) + bias;
  }
}

/// Returns the logarithm of the sum of exp(scores), or 0 if all keys are hidden.
double log_sum_exp(const double* scores, int64_t n) {
  double largest = kHidden, sum = 0;
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, scores[j]);
  if (largest == kHidden) return 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(scores[j] - largest);
  return largest + std::log(sum);
}

/// Computes sum += factor * x.
template <typename T>
void add(double factor, const T* x, double* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * static_cast<double>(x[i]);
}

template <typename T>
void store(const double* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

/// Computes one row of the result. `scores` has room for all keys, `sums` for a row of the result.
template <typename T>
void attend(const Attended& at, const Buffers& buffers, int64_t row, double* scores, double* sums) {
  const int64_t batch = row / at.queries;
  const int64_t first_key = batch / at.group * at.keys;
  const T* values = input<T>(buffers, 2) + first_key * at.value_depth;
  score(at, buffers, batch, row % at.queries, input<T>(buffers, 0) + row * at.depth,
        input<T>(buffers, 1) + first_key * at.depth, scores);
  const double log_sum = log_sum_exp(scores, at.keys);
  if (T* kept = output<T>(buffers, 1)) kept[row] = static_cast<T>(log_sum);
  std::fill_n(sums, at.value_depth, 0.0);
  for (int64_t j = 0; j < at.keys; ++j)
    if (scores[j] != kHidden)
      add(std::exp(scores[j] - log_sum), values + j * at.value_depth, sums, at.value_depth);
  store(sums, output<T>(buffers, 0) + row * at.value_depth, at.value_depth);
}

/// Calls f(j, weight, slope) for each key j that a query sees. The slope is the gradient of the
/// key's score. `scores` has room for all keys.
template <typename T, typename F>
void for_slopes(const Attended& at, const Buffers& buffers, int64_t row, double* scores, F f) {
  const int64_t batch = row / at.queries, first_key = batch / at.group * at.keys;
  const T* dy = input<T>(buffers, 0) + row * at.value_depth;
  const T* values = input<T>(buffers, 3) + first_key * at.value_depth;
  score(at, buffers, batch, row % at.queries, input<T>(buffers, 1) + row * at.depth,
        input<T>(buffers, 2) + first_key * at.depth, scores);
  const double expected = dot(dy, input<T>(buffers, 4) + row * at.value_depth, at.value_depth);
  const auto log_sum = static_cast<double>(input<T>(buffers, 5)[row]);
  for (int64_t j = 0; j < at.keys; ++j) {
    if (scores[j] == kHidden) continue;
    const double p = std::exp(scores[j] - log_sum);
    f(j, p, p * (dot(dy, values + j * at.value_depth, at.value_depth) - expected));
  }
}

/// Computes the gradients of the batches that share a key. `space` has room for scores, dquery,
/// dkey and dvalue.
template <typename T>
void attend_back(const Attended& at, const Buffers& buffers, int64_t key_batch, double* space) {
  const int64_t first_key = key_batch * at.keys;
  const T* keys = input<T>(buffers, 2) + first_key * at.depth;
  double* dquery = space + at.keys;
  double* dkeys = dquery + at.depth;
  double* dvalues = dkeys + at.keys * at.depth;
  std::fill(dkeys, dvalues + at.keys * at.value_depth, 0.0);
  const int64_t rows = at.group * at.queries;
  for (int64_t row = key_batch * rows; row < (key_batch + 1) * rows; ++row) {
    const T* dy = input<T>(buffers, 0) + row * at.value_depth;
    const T* query = input<T>(buffers, 1) + row * at.depth;
    std::fill_n(dquery, at.depth, 0.0);
    for_slopes<T>(at, buffers, row, space, [&](int64_t j, double p, double slope) {
      add(p, dy, dvalues + j * at.value_depth, at.value_depth);
      add(at.scale * slope, keys + j * at.depth, dquery, at.depth);
      add(at.scale * slope, query, dkeys + j * at.depth, at.depth);
    });
    store(dquery, output<T>(buffers, 0) + row * at.depth, at.depth);
  }
  store(dkeys, output<T>(buffers, 1) + first_key * at.depth, at.keys * at.depth);
  store(dvalues, output<T>(buffers, 2) + first_key * at.value_depth, at.keys * at.value_depth);
}

/// Computes the gradient of the bias. `space` has room for scores and for the bias.
template <typename T>
void attend_back_to_bias(const Attended& at, const Buffers& buffers, double* space) {
  double* sums = space + at.keys;
  std::fill_n(sums, at.bias_shape.elements(), 0.0);
  for (int64_t row = 0; row < at.batches * at.queries; ++row)
    for_slopes<T>(at, buffers, row, space, [&](int64_t j, double, double slope) {
      sums[at.bias_index(row / at.queries, row % at.queries, j)] += slope;
    });
  store(sums, output<T>(buffers, 0), at.bias_shape.elements());
}

Kernel prepare_scaled_dot_product_attention(const Request& request) {
  Kernel kernel;
  const Attended attention(request, false);
  const int64_t space = attention.keys + attention.value_depth;
  kernel.workspace = static_cast<size_t>(request.threads * space) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, at = attention, threads = request.threads](const Buffers& buffers,
                                                                   const CallState& state) {
      at.check(buffers, state);
      parallel_for(threads, at.batches * at.queries, [&](int64_t row, int worker) {
        double* scores = reinterpret_cast<double*>(buffers.workspace) + worker * space;
        attend<T>(at, buffers, row, scores, scores + at.keys);
      });
    };
  });
  return kernel;
}

Kernel prepare_scaled_dot_product_attention_grad(const Request& request) {
  Kernel kernel;
  const Attended attention(request, true);
  const int64_t space =
      attention.keys * (1 + attention.depth + attention.value_depth) + attention.depth;
  kernel.workspace = static_cast<size_t>(request.threads * space) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, at = attention, threads = request.threads](const Buffers& buffers,
                                                                   const CallState& state) {
      at.check(buffers, state);
      parallel_for(threads, at.batches / at.group, [&](int64_t batch, int worker) {
        attend_back<T>(at, buffers, batch,
                       reinterpret_cast<double*>(buffers.workspace) + worker * space);
      });
    };
  });
  return kernel;
}

Kernel prepare_scaled_dot_product_attention_grad_bias(const Request& request) {
  Kernel kernel;
  const Attended attention(request, true);
  kernel.workspace =
      static_cast<size_t>(attention.keys + attention.bias_shape.elements()) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [at = attention](const Buffers& buffers, const CallState& state) {
      at.check(buffers, state);
      attend_back_to_bias<T>(at, buffers, reinterpret_cast<double*>(buffers.workspace));
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> attention() {
  static constexpr KernelEntry kKernels[] = {
      {"scaled_dot_product_attention", prepare_scaled_dot_product_attention},
      {"scaled_dot_product_attention_grad", prepare_scaled_dot_product_attention_grad},
      {"scaled_dot_product_attention_grad_bias", prepare_scaled_dot_product_attention_grad_bias},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
