// The gradients of attention, with weights recomputed from the scores and their log-sum-exp. One
// block for each tile of queries sums over keys, and one block for each tile of keys sums over
// queries. No sum combines several blocks, so results are reproducible.
#include "ops/attention/cuda.cuh"

#include <cmath>

#include "ops/attention/cuda_library.h"
#include "ops/core/cuda_launch.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// The inputs of the gradients.
template <typename S>
struct Given {
  const S *dy, *query, *key, *value;
  const Wide<S>* log_sums;
  const Wide<S>* expected;  // dot product of dy and out for each query
};

/// Computes dots[row] = a[row] . b[row] with one warp per row.
template <typename S>
__global__ void dot_rows(const S* a, const S* b, int64_t rows, int64_t columns, Wide<S>* dots) {
  using T = Wide<S>;
  constexpr int kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    T sum = 0;
    for (int64_t i = lane; i < columns; i += kWarp)
      sum += convert<T>(a[row * columns + i]) * convert<T>(b[row * columns + i]);
    sum = over_warp(sum, Sum{});
    if (lane == 0) dots[row] = sum;
  }
}

/// A batch of queries with the inputs of its scores.
template <typename S>
struct GivenScores {
  const Attention& at;
  const Given<S>& given;
  int64_t batch;
  BatchScores<S> scores;

  using T = Wide<S>;
  __device__ GivenScores(const Attention& of, const Given<S>& from, int64_t number)
      : at(of), given(from), batch(number), scores(of, number) {}

  __device__ T weight(int64_t query, int64_t key, T product) const {
    if (!scores.sees(at, query, key)) return 0;
    const T score = scores.score(at, query, key, product);
    if (score == -static_cast<T>(INFINITY)) return 0;
    return std::exp(score - given.log_sums[batch * at.queries + query]);
  }

  /// The gradient of a score, computed from the gradient of its weight.
  __device__ T slope(int64_t query, T weight, T gradient) const {
    if (query >= at.queries || weight == 0) return 0;
    return weight * (gradient - given.expected[batch * at.queries + query]);
  }
};

template <typename S>
__global__ void attend_back_to_query(Attention at, Given<S> given, S* dquery) {
  using T = Wide<S>;
  const Space<T> space;
  const TilePlace place = tile_place<T>(at.queries, at.depth);
  const GivenScores<S> scores(at, given, place.batch);
  const int64_t first = place.batch * at.queries + place.row, rows = at.queries - place.row;
  const KeyRange seen = at.seen_keys(place.batch, place.row, place.row + kTile<T>, kTile<T>);
  const Rows<S> query{given.query + first * at.depth, rows, at.depth};
  const Rows<S> dy{given.dy + first * at.value_depth, rows, at.value_depth};
  Part<T> sums;
  for (int64_t at_key = seen.first; at_key < seen.end; at_key += kTile<T>) {
    const int64_t from = place.batch / at.group * at.keys + at_key, count = at.keys - at_key;
    const Rows<S> key{given.key + from * at.depth, count, at.depth};
    const Part<T> of_scores = products(query, key, space);
    const Part<T> gradients =
        products<S>(dy, {given.value + from * at.value_depth, count, at.value_depth}, space);
    put_tile(space, [&](int row, int column, int i, int j) {
      const int64_t own = place.row + row;
      const T p = scores.weight(own, at_key + column, of_scores.at[i][j]);
      return scores.slope(own, p, gradients.at[i][j]) * static_cast<T>(at.scale);
    });
    add_products(space, key, place.column, sums);
  }
  store_part(sums, rows, at.depth, place.column, dquery + first * at.depth);
}

/// Computes the gradients of keys and values in transposed tiles: rows are keys, and columns are
/// the queries of all batches that share these keys.
template <typename S>
__global__ void attend_back_to_keys(Attention at, Given<S> given, S* dkey, S* dvalue) {
  using T = Wide<S>;
  const Space<T> space;
  const int64_t columns = at.depth > at.value_depth ? at.depth : at.value_depth;
  const TilePlace place = tile_place<T>(at.keys, columns);
  const int64_t first = place.batch * at.keys + place.row, rows = at.keys - place.row;
  const Rows<S> key{given.key + first * at.depth, rows, at.depth};
  const Rows<S> value{given.value + first * at.value_depth, rows, at.value_depth};
  // In a causal call, the first query that sees a key of the tile, and an upper bound after which
  // no query sees one.
  const int64_t sees = place.row > at.diagonal ? place.row - at.diagonal : 0;
  const int64_t last = place.row - at.diagonal + kTile<T> - 1 + at.window;
  const int64_t end = at.causal && last < at.queries ? last : at.queries;
  Part<T> key_sums, value_sums;
  for (int64_t batch = place.batch * at.group; batch < (place.batch + 1) * at.group; ++batch) {
    const GivenScores<S> scores(at, given, batch);
    if (place.row >= scores.scores.keys) continue;
    for (int64_t at_query = at.causal ? sees : 0; at_query < end; at_query += kTile<T>) {
      const int64_t from = batch * at.queries + at_query, count = at.queries - at_query;
      const Rows<S> query{given.query + from * at.depth, count, at.depth};
      const Rows<S> dy{given.dy + from * at.value_depth, count, at.value_depth};
      Part<T> weights = products(key, query, space);
      const Part<T> gradients = products(value, dy, space);
      put_tile(space, [&](int row, int column, int i, int j) {
        return weights.at[i][j] =
                   scores.weight(at_query + column, place.row + row, weights.at[i][j]);
      });
      add_products(space, dy, place.column, value_sums);
      __syncthreads();  // waits until no thread reads the weights
      put_tile(space, [&](int, int column, int i, int j) {
        return scores.slope(at_query + column, weights.at[i][j], gradients.at[i][j]) *
               static_cast<T>(at.scale);
      });
      add_products(space, query, place.column, key_sums);
    }
  }
  store_part(key_sums, rows, at.depth, place.column, dkey + first * at.depth);
  store_part(value_sums, rows, at.value_depth, place.column, dvalue + first * at.value_depth);
}

/// How batches, and the tiles of a batch, share the elements of the bias.
struct BiasReaders {
  Loops<1> own, shared;      // map a batch of the bias, and a reader within it, to batches
  int64_t count;             // number of readers of each batch of the bias
  int64_t tiles, key_tiles;  // tiles per batch of the bias that share no elements
};

/// Sums the tile along its rows, or along its columns, into the first row or column.
template <typename T>
__device__ void sum_tile(const Space<T>& space, bool along_rows) {
  const int step = along_rows ? kTileStride<T> : 1, other = along_rows ? 1 : kTileStride<T>;
  __syncthreads();  // waits until the tile is written
  const int i = static_cast<int>(threadIdx.x);
  if (i < kTile<T>) {
    T sum = 0;
    for (int k = 0; k < kTile<T>; ++k) sum += space.tile[i * other + k * step];
    space.tile[i * other] = sum;
  }
}

/// Computes the gradient of the bias with one block for each tile of elements that no other tile
/// reads. The block sums the slopes of all scores that read these elements.
template <typename S>
__global__ void attend_back_to_bias(Attention at, Given<S> given, BiasReaders readers,
                                    Wide<S>* dbias) {
  using T = Wide<S>;
  const Space<T> space;
  const int64_t number = blockIdx.x, own = number / readers.key_tiles / readers.tiles;
  const bool has_rows = at.bias.rows > 1, has_columns = at.bias.columns > 1;
  const int64_t row = has_rows ? number / readers.key_tiles % readers.tiles * kTile<T> : 0;
  const int64_t column = has_columns ? number % readers.key_tiles * kTile<T> : 0;
  const int64_t rows_end = has_rows ? row + 1 : at.queries;
  const int64_t first_batch = readers.own.at(own).of[0];
  Part<T> sums;
  for (int64_t reader = 0; reader < readers.count; ++reader) {
    const int64_t batch = first_batch + readers.shared.at(reader).of[0];
    const GivenScores<S> scores(at, given, batch);
    const int64_t keys_end = has_columns ? column + 1 : scores.scores.keys;
    for (int64_t at_query = row; at_query < rows_end; at_query += kTile<T>) {
      const int64_t from = batch * at.queries + at_query, count = at.queries - at_query;
      for (int64_t at_key = column; at_key < keys_end; at_key += kTile<T>) {
        const int64_t key = batch / at.group * at.keys + at_key, keys = at.keys - at_key;
        const Part<T> of_scores = products<S>({given.query + from * at.depth, count, at.depth},
                                              {given.key + key * at.depth, keys, at.depth}, space);
        const Part<T> gradients =
            products<S>({given.dy + from * at.value_depth, count, at.value_depth},
                        {given.value + key * at.value_depth, keys, at.value_depth}, space);
        for_own<T>([&](int i, int j) {
          const int64_t query = at_query + lane_row() + i * kSide;
          const T p = scores.weight(query, at_key + lane_column() + j * kSide, of_scores.at[i][j]);
          sums.at[i][j] += scores.slope(query, p, gradients.at[i][j]);
        });
      }
    }
  }
  __syncthreads();
  put_tile(space, [&](int, int, int i, int j) { return sums.at[i][j]; });
  if (!has_rows) sum_tile(space, true);
  if (!has_columns) sum_tile(space, false);
  __syncthreads();
  T* to = dbias + own * at.bias.rows * at.bias.columns;
  for_own<T>([&](int i, int j) {
    const int64_t r = row + lane_row() + i * kSide, c = column + lane_column() + j * kSide;
    if (r < at.bias.rows && c < at.bias.columns)
      to[r * at.bias.columns + c] =
          space.tile[(lane_row() + i * kSide) * kTileStride<T> + lane_column() + j * kSide];
  });
}

/// Returns how the batches of a query share a bias of that shape.
BiasReaders readers_of(const Shape& bias, const Shape& query) {
  BiasReaders readers{};
  readers.count = 1;
  for (int axis = 0; axis < query.rank() - 2; ++axis) {
    const int own = axis - (query.rank() - bias.rank());
    const int64_t step = query.elements(axis + 1, query.rank() - 2);
    const bool kept = own >= 0 && bias[own] > 1;
    (kept ? readers.own : readers.shared).add(query[axis], {step});
    if (!kept) readers.count *= query[axis];
  }
  return readers;
}

/// The size in bytes of the products dy . out of all queries, which are at the start of the
/// workspace.
template <typename S>
size_t expected_bytes(const Attention& at) {
  return static_cast<size_t>(at.batches * at.queries) * sizeof(Wide<S>);
}

template <typename S>
Given<S> given_to(const Attention& at, const Buffers& buffers, const LaunchState& state) {
  using T = Wide<S>;
  T* expected = reinterpret_cast<T*>(buffers.workspace);
  const Given<S> given{input<S>(buffers, 0), input<S>(buffers, 1), input<S>(buffers, 2),
                       input<S>(buffers, 3), input<T>(buffers, 5), expected};
  const int64_t rows = at.batches * at.queries;
  launch(state, "attention_dots", shape_for(rows * kWarp), dot_rows<S>, given.dy,
         input<S>(buffers, 4), rows, at.value_depth, expected);
  return given;
}

template <typename S>
void launch_gradients(const Attention& at, const Buffers& buffers, const LaunchState& state) {
  using T = Wide<S>;
  const Given<S> given = given_to<S>(at, buffers, state);
  launch(state, "attention_dquery", tile_launch<T>(at.batches, at.queries, at.depth),
         attend_back_to_query<S>, at, given, output<S>(buffers, 0));
  launch(state, "attention_dkeys",
         tile_launch<T>(at.batches / at.group, at.keys, std::max(at.depth, at.value_depth)),
         attend_back_to_keys<S>, at, given, output<S>(buffers, 1), output<S>(buffers, 2));
}

template <typename S>
void launch_bias_gradient(const Attention& at, BiasReaders readers, const Buffers& buffers,
                          const LaunchState& state) {
  using T = Wide<S>;
  readers.tiles = at.bias.rows > 1 ? ceil_div<int64_t>(at.queries, kTile<T>) : 1;
  readers.key_tiles = at.bias.columns > 1 ? ceil_div<int64_t>(at.keys, kTile<T>) : 1;
  const int64_t blocks = readers.own.elements() * readers.tiles * readers.key_tiles;
  launch(state, "attention_dbias",
         LaunchShape{{static_cast<unsigned>(blocks)}, {kThreads}, Space<T>::kBytes},
         attend_back_to_bias<S>, at, given_to<S>(at, buffers, state), readers,
         output<T>(buffers, 0));
}

}  // namespace

Kernel prepare_scaled_dot_product_attention_grad(const Request& request) {
  return library_or_own(request, [&]<typename S>(S) -> Kernel {
    const AttentionRequest of(request, true);
    return {[of](const Buffers& buffers, const LaunchState& state) {
              launch_gradients<S>(of.bind(buffers, state), buffers, state);
            },
            expected_bytes<S>(of.at)};
  });
}

Kernel prepare_scaled_dot_product_attention_grad_bias(const Request& request) {
  return visit_any_float(request.inputs[0].dtype, [&]<typename S>(S) -> Kernel {
    const AttentionRequest of(request, true);
    const BiasReaders readers = readers_of(request.inputs[*of.operands.bias].shape,
                                           request.inputs[of.operands.query].shape);
    return {[of, readers](const Buffers& buffers, const LaunchState& state) {
              launch_bias_gradient<S>(of.bind(buffers, state), readers, buffers, state);
            },
            expected_bytes<S>(of.at)};
  });
}

}  // namespace flow::cuda
