// Reference: scaled dot product attention and its gradients, query by query in double.
#include "runtime/cpu/attention.h"

#include <cmath>
#include <limits>

#include "runtime/cpu/operands.h"

namespace flow::cpu::reference {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// scores[j] = scale * query . key j, or -inf where the query does not see it.
template <typename T>
void score(const Attention& at, const Buffers& buffers, int64_t batch, int64_t i, const T* query,
           const T* keys, double* scores) {
  for (int64_t j = 0; j < at.keys; ++j) {
    bool seen = !at.causal || j <= i;
    if (at.has_mask())
      seen &=
          input<bool>(buffers, at.mask_operand())[at.mask_row(batch, i) + j * at.mask_key_step()];
    scores[j] = seen ? at.scale * dot(query, keys + j * at.depth, at.depth) : kHidden;
  }
}

/// The logarithm of the sum of exp(scores); 0 where all of them are hidden.
double log_sum_exp(const double* scores, int64_t n) {
  double largest = kHidden, sum = 0;
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, scores[j]);
  if (largest == kHidden) return 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(scores[j] - largest);
  return largest + std::log(sum);
}

template <typename T>
void attend(const Attention& at, const Buffers& buffers, int64_t row, double* scores) {
  const int64_t batch = row / at.queries;
  const T* values = input<T>(buffers, 2) + batch * at.keys * at.value_depth;
  score(at, buffers, batch, row % at.queries, input<T>(buffers, 0) + row * at.depth,
        input<T>(buffers, 1) + batch * at.keys * at.depth, scores);
  const double log_sum = log_sum_exp(scores, at.keys);
  if (T* kept = output<T>(buffers, 1)) kept[row] = static_cast<T>(log_sum);
  for (int64_t d = 0; d < at.value_depth; ++d) {
    double sum = 0;
    for (int64_t j = 0; j < at.keys; ++j)
      sum += std::exp(scores[j] - log_sum) * static_cast<double>(values[j * at.value_depth + d]);
    output<T>(buffers, 0)[row * at.value_depth + d] = static_cast<T>(sum);
  }
}

/// sum += factor * x
template <typename T>
void add(double factor, const T* x, double* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * static_cast<double>(x[i]);
}

template <typename T>
void store(const double* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

/// The gradients of one batch. `space` has room for scores, dquery, dkey and dvalue.
template <typename T>
void attend_back(const Attention& at, const Buffers& buffers, int64_t batch, double* space) {
  const int64_t first = batch * at.queries, first_key = batch * at.keys;
  const T* keys = input<T>(buffers, 2) + first_key * at.depth;
  const T* values = input<T>(buffers, 3) + first_key * at.value_depth;
  double* dquery = space + at.keys;
  double* dkeys = dquery + at.depth;
  double* dvalues = dkeys + at.keys * at.depth;
  std::fill(dkeys, dvalues + at.keys * at.value_depth, 0.0);
  for (int64_t i = 0; i < at.queries; ++i) {
    const int64_t row = first + i;
    const T* dy = input<T>(buffers, 0) + row * at.value_depth;
    const T* query = input<T>(buffers, 1) + row * at.depth;
    score(at, buffers, batch, i, query, keys, space);
    const double expected = dot(dy, input<T>(buffers, 4) + row * at.value_depth, at.value_depth);
    const auto log_sum = static_cast<double>(input<T>(buffers, 5)[row]);
    std::fill_n(dquery, at.depth, 0.0);
    for (int64_t j = 0; j < at.keys; ++j) {
      const double p = std::exp(space[j] - log_sum);
      const double slope =
          at.scale * p * (dot(dy, values + j * at.value_depth, at.value_depth) - expected);
      add(p, dy, dvalues + j * at.value_depth, at.value_depth);
      add(slope, keys + j * at.depth, dquery, at.depth);
      add(slope, query, dkeys + j * at.depth, at.depth);
    }
    store(dquery, output<T>(buffers, 0) + row * at.depth, at.depth);
  }
  store(dkeys, output<T>(buffers, 1) + first_key * at.depth, at.keys * at.depth);
  store(dvalues, output<T>(buffers, 2) + first_key * at.value_depth, at.keys * at.value_depth);
}

}  // namespace

Kernel scaled_dot_product_attention(const Request& request) {
  Kernel kernel;
  const Attention attention(request, 0, 3);
  kernel.workspace = static_cast<size_t>(request.threads * attention.keys) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [at = attention, threads = request.threads](const Buffers& buffers,
                                                                const CallState&) {
      parallel_for(threads, at.batches * at.queries, [&](int64_t row, int worker) {
        attend<T>(at, buffers, row,
                  reinterpret_cast<double*>(buffers.workspace) + worker * at.keys);
      });
    };
  });
  return kernel;
}

Kernel scaled_dot_product_attention_grad(const Request& request) {
  Kernel kernel;
  const Attention attention(request, 1, 6);
  const int64_t space =
      attention.keys * (1 + attention.depth + attention.value_depth) + attention.depth;
  kernel.workspace = static_cast<size_t>(request.threads * space) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, at = attention, threads = request.threads](const Buffers& buffers,
                                                                   const CallState&) {
      parallel_for(threads, at.batches, [&](int64_t batch, int worker) {
        attend_back<T>(at, buffers, batch,
                       reinterpret_cast<double*>(buffers.workspace) + worker * space);
      });
    };
  });
  return kernel;
}

}  // namespace flow::cpu::reference
