// scaled_dot_product_attention with one block for each tile of queries and of the value's columns.
// A block loops over the tiles of keys that one of its queries may see, and keeps the running
// maximum and sum of the softmax. The gradients are in cuda_grad.cu. For the library's attention,
// this file also contains kernels that provide lengths and that write zeros where the library
// leaves results undefined.
#include <cmath>
#include <utility>

#include "ops/attention/cuda.cuh"
#include "ops/attention/cuda_library.h"
#include "ops/core/cuda_launch.cuh"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

constexpr size_t kPartAlignment = 256;  // bytes, for every buffer

/// Stores two lengths for each group of `heads` batches: the number of queries, and the number of
/// keys, which is at least 1 because the library requires it.
__global__ void store_lengths(Attention at, int64_t heads, int32_t* queries, int32_t* keys) {
  for (int64_t i = first_index(); i < at.batches / heads; i += index_step()) {
    const int64_t length = at.length(i * heads);
    queries[i] = static_cast<int32_t>(at.queries);
    keys[i] = static_cast<int32_t>(length > 0 ? length : 1);
  }
}

/// Returns true if the query sees no key, or only keys whose bias is -inf. For most queries, the
/// first key decides.
__device__ inline bool sees_none(const Attention& at, int64_t batch, int64_t query,
                                 uint16_t minus_infinity) {
  const KeyRange seen = at.seen_keys(batch, query, query + 1, 1);
  const uint16_t* bias = at.bias.of<uint16_t>(batch);
  if (!bias) return seen.first >= seen.end;
  for (int64_t key = seen.first; key < seen.end; ++key)
    if (bias[query * at.bias.query_step + key * at.bias.key_step] != minus_infinity) return false;
  return true;
}

/// Writes zeros to the results of queries that see no key. `log_sums` may be null.
__global__ void clear_results(Attention at, uint16_t minus_infinity, uint16_t* out,
                              float* log_sums) {
  for (int64_t row = first_index(); row < at.batches * at.queries; row += index_step()) {
    if (!sees_none(at, row / at.queries, row % at.queries, minus_infinity)) continue;
    for (int64_t i = 0; i < at.value_depth; ++i) out[row * at.value_depth + i] = 0;
    if (log_sums) log_sums[row] = 0;
  }
}

/// Writes zeros to the query gradients in batches without keys.
__global__ void clear_queries(Attention at, uint16_t* gradients) {
  const int64_t batch = at.queries * at.depth;
  for (int64_t i = first_index(); i < at.batches * batch; i += index_step())
    if (at.length(i / batch) == 0) gradients[i] = 0;
}

/// Writes zeros to the gradients of keys or values that the lengths hide.
__global__ void clear_keys(Attention at, int64_t depth, uint16_t* gradients) {
  const int64_t rows = at.key_batches() * at.keys;
  for (int64_t i = first_index(); i < rows * depth; i += index_step()) {
    const int64_t row = i / depth;
    if (row % at.keys >= at.length(row / at.keys * at.group)) gradients[i] = 0;
  }
}

/// The work that a step needs in addition to the library's kernel.
struct HiddenKeys {
  AttentionRequest request;
  AttentionSpec::Pass pass;
  int64_t heads;  // number of heads in a batch of queries
  uint16_t minus_infinity;
  size_t query_lengths, key_lengths;  // offsets into the workspace

  /// Stores the lengths for the library, and their addresses in `buffers`.
  void store(const Attention& at, const Buffers& b, const LaunchState& state,
             AttentionBuffers& buffers) const {
    if (!request.operands.lengths) return;
    std::byte *queries = b.workspace + query_lengths, *keys = b.workspace + key_lengths;
    launch(state, "attention_store_lengths", shape_for(at.batches / heads), store_lengths, at,
           heads, reinterpret_cast<int32_t*>(queries), reinterpret_cast<int32_t*>(keys));
    buffers.query_lengths = queries;
    buffers.key_lengths = keys;
  }

  void clear(const Attention& at, const Buffers& b, const LaunchState& state,
             float* log_sums) const {
    if (pass == AttentionSpec::Pass::kForward)
      return launch(state, "attention_clear_results", shape_for(at.batches * at.queries),
                    clear_results, at, minus_infinity, output<uint16_t>(b, 0), log_sums);
    if (!request.operands.lengths) return;
    launch(state, "attention_clear_queries", shape_for(at.batches * at.queries * at.depth),
           clear_queries, at, output<uint16_t>(b, 0));
    const auto clear_rows = [&](int64_t depth, size_t result) {
      launch(state, "attention_clear_keys", shape_for(at.key_batches() * at.keys * depth),
             clear_keys, at, depth, output<uint16_t>(b, result));
    };
    clear_rows(at.depth, 1);
    clear_rows(at.value_depth, 2);
  }
};

/// Reduces a value with `op` over the 16 threads of a row of the tile.
template <typename T, typename Op>
__device__ T over_row(T value, Op op) {
  for (int lanes = kSide / 2; lanes > 0; lanes /= 2)
    value = op(value, __shfl_xor_sync(0xFFFFFFFF, value, lanes));
  return value;
}

/// The largest score so far and the sum of exp(score - largest), for each row of a thread.
template <typename T>
struct RowSums {
  T largest[kOwn<T>], sum[kOwn<T>] = {};

  __device__ RowSums() {
    for (T& x : largest) x = -static_cast<T>(INFINITY);
  }
};

/// Replaces the scores of one row by weights. If the largest score grows, also scales down the sums
/// over the previous keys.
template <typename T>
__device__ void weigh_row(T (&scores)[kOwn<T>], T& largest, T& sum, T (&out)[kOwn<T>]) {
  T highest = largest;
  for (const T score : scores) highest = Larger{}(highest, score);
  highest = over_row(highest, Larger{});
  const T hidden = -static_cast<T>(INFINITY);
  const T factor = highest > hidden ? std::exp(largest - highest) : T{1};
  T added = 0;
  for (T& score : scores) {
    score = score == hidden ? T{0} : std::exp(score - highest);
    added += score;
  }
  sum = sum * factor + over_row(added, Sum{});
  largest = highest;
  for (T& element : out) element *= factor;
}

/// Replaces the products of a tile by scores, for the queries starting with `row` and the keys
/// starting with `first`. The score is -inf if the query does not see the key.
template <typename S>
__device__ void finish_scores(const Attention& at, const BatchScores<S>& of, int64_t row,
                              int64_t first, Part<Wide<S>>& products) {
  using T = Wide<S>;
  for_own<T>([&](int i, int j) {
    const int64_t query = row + lane_row() + i * kSide, key = first + lane_column() + j * kSide;
    products.at[i][j] = of.sees(at, query, key) ? of.score(at, query, key, products.at[i][j])
                                                : -static_cast<T>(INFINITY);
  });
}

/// Divides the results by the sums of weights, and stores the logarithms of the sums in `log_sums`
/// unless it is null.
template <typename T>
__device__ void normalize(const RowSums<T>& sums, int64_t rows, Part<T>& results, T* log_sums) {
  for (int i = 0; i < kOwn<T>; ++i) {
    const T sum = sums.sum[i];
    for (T& element : results.at[i]) element *= sum == 0 ? T{0} : 1 / sum;
    const int row = lane_row() + i * kSide;
    if (log_sums && lane_column() == 0 && row < rows)
      log_sums[row] = sum == 0 ? T{0} : sums.largest[i] + std::log(sum);
  }
}

template <typename S>
__global__ void attend(Attention at, const S* query, const S* key, const S* value, S* out,
                       Wide<S>* log_sums) {
  using T = Wide<S>;
  const Space<T> space;
  const TilePlace place = tile_place<T>(at.queries, at.value_depth);
  const BatchScores<S> scores(at, place.batch);
  const int64_t first = place.batch * at.queries + place.row, rows = at.queries - place.row;
  const KeyRange seen = at.seen_keys(place.batch, place.row, place.row + kTile<T>, kTile<T>);
  RowSums<T> sums;
  Part<T> results;
  for (int64_t at_key = seen.first; at_key < seen.end; at_key += kTile<T>) {
    const int64_t from = place.batch / at.group * at.keys + at_key, count = at.keys - at_key;
    Part<T> weights = products<S>({query + first * at.depth, rows, at.depth},
                                  {key + from * at.depth, count, at.depth}, space);
    finish_scores(at, scores, place.row, at_key, weights);
    for (int i = 0; i < kOwn<T>; ++i)
      weigh_row<T>(weights.at[i], sums.largest[i], sums.sum[i], results.at[i]);
    put_tile(space, [&](int, int, int i, int j) { return weights.at[i][j]; });
    add_products<S>(space, {value + from * at.value_depth, count, at.value_depth}, place.column,
                    results);
  }
  normalize(sums, rows, results, log_sums && place.column == 0 ? log_sums + first : nullptr);
  store_part(results, rows, at.value_depth, place.column, out + first * at.value_depth);
}

Kernel prepare_scaled_dot_product_attention(const Request& request) {
  return library_or_own(request, [&]<typename S>(S) -> Kernel {
    return {
        [of = AttentionRequest(request, false)](const Buffers& buffers, const LaunchState& state) {
          const Attention at = of.bind(buffers, state);
          launch(state, "attention", tile_launch<Wide<S>>(at.batches, at.queries, at.value_depth),
                 attend<S>, at, input<S>(buffers, 0), input<S>(buffers, 1), input<S>(buffers, 2),
                 output<S>(buffers, 0), output<Wide<S>>(buffers, 1));
        }};
  });
}

}  // namespace

Kernel prepare_hidden_keys(const Request& request, const AttentionSpec& spec,
                           const AttentionKernel& library,
                           std::function<AttentionBuffers(const Buffers&)> buffers_of) {
  Kernel kernel;
  kernel.workspace = library.workspace;
  const auto add_lengths = [&] {
    const size_t at = round_up(kernel.workspace, kPartAlignment);
    if (spec.lengths) kernel.workspace = at + static_cast<size_t>(spec.query[0]) * sizeof(int32_t);
    return at;
  };
  const bool forward = spec.pass == AttentionSpec::Pass::kForward;
  const HiddenKeys hidden{AttentionRequest(request, !forward),
                          spec.pass,
                          spec.query[1],
                          static_cast<uint16_t>(spec.dtype == DType::kFloat16 ? 0xFC00 : 0xFF80),
                          add_lengths(),
                          add_lengths()};
  kernel.launch = [library, hidden, buffers_of = std::move(buffers_of)](const Buffers& b,
                                                                        const LaunchState& state) {
    const Attention at = hidden.request.bind(b, state);
    AttentionBuffers buffers = buffers_of(b);
    hidden.store(at, b, state, buffers);
    library.run(buffers, state.stream);
    hidden.clear(at, b, state, reinterpret_cast<float*>(buffers.log_sums));
  };
  return kernel;
}

std::span<const KernelEntry> kernels::attention() {
  static constexpr KernelEntry kKernels[] = {
      {"scaled_dot_product_attention", prepare_scaled_dot_product_attention, Order::kOwn},
      {"scaled_dot_product_attention_grad", prepare_scaled_dot_product_attention_grad, Order::kOwn},
      {"scaled_dot_product_attention_grad_bias", prepare_scaled_dot_product_attention_grad_bias,
       Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
