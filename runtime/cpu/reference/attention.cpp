// Reference: scaled dot product attention and its gradients, query by query in double.
#include <cmath>
#include <limits>
#include <optional>

#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/index.h"

namespace flow::cpu::reference {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// `batches` times: a query [queries, depth] over a key [keys, depth] and a value
/// [keys, value_depth].
struct Attended {
  /// The operands `query` and the two after it are the query, key and value; operand `of_mask` is
  /// the mask, where there are as many.
  Attended(const Request& request, size_t query, size_t of_mask) : mask(of_mask) {
    const Shape &q = request.inputs[query].shape, &v = request.inputs[query + 2].shape;
    const int rank = q.rank();
    batches = q.elements(0, rank - 2);
    queries = q[rank - 2];
    keys = v[rank - 2];
    depth = q[rank - 1];
    value_depth = v[rank - 1];
    scale = request.step.attributes.get<double>("scale");
    causal = request.step.attributes.get<bool>("causal");
    scores = q;
    scores[rank - 1] = keys;
    if (mask < request.inputs.size()) mask_shape = request.inputs[mask].shape;
  }

  /// Does a query, row i of batch b, see key j?
  bool sees(const Buffers& buffers, int64_t b, int64_t i, int64_t j) const {
    if (causal && j > i) return false;
    if (!mask_shape) return true;
    return input<bool>(buffers,
                       mask)[operand_index(scores, (b * queries + i) * keys + j, *mask_shape)];
  }

  int64_t batches, queries, keys, depth, value_depth;
  double scale;
  bool causal;
  size_t mask;
  Shape scores;  // [..., queries, keys], to which the mask broadcasts
  std::optional<Shape> mask_shape;
};

template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// scores[j] = scale * query . key j, or -inf where the query does not see it.
template <typename T>
void score(const Attended& at, const Buffers& buffers, int64_t batch, int64_t i, const T* query,
           const T* keys, double* scores) {
  for (int64_t j = 0; j < at.keys; ++j)
    scores[j] = at.sees(buffers, batch, i, j) ? at.scale * dot(query, keys + j * at.depth, at.depth)
                                              : kHidden;
}

/// The logarithm of the sum of exp(scores); 0 where all of them are hidden.
double log_sum_exp(const double* scores, int64_t n) {
  double largest = kHidden, sum = 0;
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, scores[j]);
  if (largest == kHidden) return 0;
  for (int64_t j = 0; j < n; ++j) sum += std::exp(scores[j] - largest);
  return largest + std::log(sum);
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

/// One row of the result. `scores` and `sums` have room for those of all keys, and for the row.
template <typename T>
void attend(const Attended& at, const Buffers& buffers, int64_t row, double* scores, double* sums) {
  const int64_t batch = row / at.queries;
  const T* values = input<T>(buffers, 2) + batch * at.keys * at.value_depth;
  score(at, buffers, batch, row % at.queries, input<T>(buffers, 0) + row * at.depth,
        input<T>(buffers, 1) + batch * at.keys * at.depth, scores);
  const double log_sum = log_sum_exp(scores, at.keys);
  if (T* kept = output<T>(buffers, 1)) kept[row] = static_cast<T>(log_sum);
  std::fill_n(sums, at.value_depth, 0.0);
  for (int64_t j = 0; j < at.keys; ++j)
    add(std::exp(scores[j] - log_sum), values + j * at.value_depth, sums, at.value_depth);
  store(sums, output<T>(buffers, 0) + row * at.value_depth, at.value_depth);
}

/// The gradients of one batch. `space` has room for scores, dquery, dkey and dvalue.
template <typename T>
void attend_back(const Attended& at, const Buffers& buffers, int64_t batch, double* space) {
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

Kernel prepare_scaled_dot_product_attention(const Request& request) {
  Kernel kernel;
  const Attended attention(request, 0, 3);
  const int64_t space = attention.keys + attention.value_depth;
  kernel.workspace = static_cast<size_t>(request.threads * space) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, at = attention, threads = request.threads](const Buffers& buffers,
                                                                   const CallState&) {
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
  const Attended attention(request, 1, 6);
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

}  // namespace

std::span<const KernelEntry> attention() {
  static constexpr KernelEntry kKernels[] = {
      {"scaled_dot_product_attention", prepare_scaled_dot_product_attention},
      {"scaled_dot_product_attention_grad", prepare_scaled_dot_product_attention_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
