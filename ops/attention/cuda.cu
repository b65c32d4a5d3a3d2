// scaled_dot_product_attention: a block for each tile of queries and of the value's columns. It
// goes over the tiles of keys that some query may see and carries the softmax's largest score and
// sum along. The gradients: attention_grad.cu.
#include "ops/attention/cuda.cuh"

#include <cmath>

#include "ops/attention/cuda_grad.h"
#include "ops/attention/cuda_library.h"
#include "ops/attention/cuda_request.h"
#include "runtime/cuda/libraries/refusal.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// op over the 16 threads of a row of the tile.
template <typename T, typename Op>
__device__ T over_row(T value, Op op) {
  for (int lanes = kSide / 2; lanes > 0; lanes /= 2)
    value = op(value, __shfl_xor_sync(0xFFFFFFFF, value, lanes));
  return value;
}

/// Of each of a thread's rows: the largest score so far, and the sum of exp(score - largest).
template <typename T>
struct RowSums {
  T largest[kOwn<T>], sum[kOwn<T>] = {};

  __device__ RowSums() {
    for (T& x : largest) x = -static_cast<T>(INFINITY);
  }
};

/// Weights in place of the scores of one row; what the keys before gave is made smaller where there
/// is a new largest score.
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

/// Scores in place of the products of a tile: of queries from `row` on with keys from `first` on;
/// -inf where a query does not see one.
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

/// Divides by the sums of weights; their logarithms go to `log_sums`, unless it is null.
template <typename T>
__device__ void normalise(const RowSums<T>& sums, int64_t rows, Part<T>& results, T* log_sums) {
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
  normalise(sums, rows, results, log_sums && place.column == 0 ? log_sums + first : nullptr);
  store_part(results, rows, at.value_depth, place.column, out + first * at.value_depth);
}

Kernel prepare_scaled_dot_product_attention(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_low_precision(dtype))
    if (std::optional<Kernel> kernel = find_library_attention(request)) return *kernel;
  Kernel kernel = visit_any_float(dtype, [&]<typename S>(S) -> Kernel {
    return {
        [of = AttentionRequest(request, false)](const Buffers& buffers, const LaunchState& state) {
          const Attention at = of.bind(buffers, state);
          launch(state.driver, state.stream, "attention",
                 tile_launch<Wide<S>>(at.batches, at.queries, at.value_depth), attend<S>, at,
                 input<S>(buffers, 0), input<S>(buffers, 1), input<S>(buffers, 2),
                 output<S>(buffers, 0), output<Wide<S>>(buffers, 1));
        }};
  });
  kernel.name = name_own_kernel(request.step);
  return kernel;
}

}  // namespace

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
