// The gradients of attention, weights computed again from the scores and the logarithms of their
// sums: a block for each tile of queries, which sums over keys, and one for each tile of keys,
// which sums over queries. Nothing is added from several blocks, so that bits repeat.
#include "runtime/cuda/kernels/attention_grad.h"

#include <cmath>

#include "runtime/cuda/kernels/attention.cuh"
#include "runtime/cuda/kernels/attention_library.h"
#include "runtime/cuda/kernels/attention_request.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// What the gradients are computed from.
template <typename S>
struct Given {
  const S *dy, *query, *key, *value;
  const Wide<S>* log_sums;
  const Wide<S>* expected;  // dy . out of each query
};

/// dots[row] = a[row] . b[row], a warp for each row.
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

template <typename S, typename T = Wide<S>>
__device__ T weight(const Attention& at, const Given<S>& given, const TilePlace& place,
                    int64_t query, int64_t key, Wide<S> product) {
  if (!at.sees(place.mask, query, key)) return 0;
  return std::exp(product * static_cast<T>(at.scale) -
                  given.log_sums[place.batch * at.queries + query]);
}

/// The gradient of a score, from that of its weight.
template <typename S, typename T = Wide<S>>
__device__ T slope(const Attention& at, const Given<S>& given, int64_t batch, int64_t query,
                   Wide<S> weight, Wide<S> gradient) {
  if (query >= at.queries) return 0;
  const T expected = given.expected[batch * at.queries + query];
  return weight * (gradient - expected) * static_cast<T>(at.scale);
}

template <typename S>
__global__ void attend_back_to_query(Attention at, Given<S> given, S* dquery) {
  using T = Wide<S>;
  const Space<T> space;
  const TilePlace place = tile_place<T>(at, at.queries, at.depth);
  const int64_t first = place.batch * at.queries + place.row, rows = at.queries - place.row;
  const int64_t last = place.row + kTile<T>, end = at.causal && last < at.keys ? last : at.keys;
  const Rows<S> query{given.query + first * at.depth, rows, at.depth};
  const Rows<S> dy{given.dy + first * at.value_depth, rows, at.value_depth};
  Part<T> sums;
  for (int64_t at_key = 0; at_key < end; at_key += kTile<T>) {
    const int64_t from = place.batch * at.keys + at_key, count = at.keys - at_key;
    const Rows<S> key{given.key + from * at.depth, count, at.depth};
    const Part<T> scores = products(query, key, space);
    const Part<T> gradients =
        products<S>(dy, {given.value + from * at.value_depth, count, at.value_depth}, space);
    put_tile(space, [&](int row, int column, int i, int j) {
      const int64_t own = place.row + row;
      const T p = weight(at, given, place, own, at_key + column, scores.at[i][j]);
      return slope(at, given, place.batch, own, p, gradients.at[i][j]);
    });
    add_products(space, key, place.column, sums);
  }
  store_part(sums, rows, at.depth, place.column, dquery + first * at.depth);
}

/// Tiles stand on their side: rows are keys, columns queries.
template <typename S>
__global__ void attend_back_to_keys(Attention at, Given<S> given, S* dkey, S* dvalue) {
  using T = Wide<S>;
  const Space<T> space;
  const int64_t columns = at.depth > at.value_depth ? at.depth : at.value_depth;
  const TilePlace place = tile_place<T>(at, at.keys, columns);
  const int64_t first = place.batch * at.keys + place.row, rows = at.keys - place.row;
  const Rows<S> key{given.key + first * at.depth, rows, at.depth};
  const Rows<S> value{given.value + first * at.value_depth, rows, at.value_depth};
  Part<T> key_sums, value_sums;
  for (int64_t at_query = at.causal ? place.row : 0; at_query < at.queries; at_query += kTile<T>) {
    const int64_t from = place.batch * at.queries + at_query, count = at.queries - at_query;
    const Rows<S> query{given.query + from * at.depth, count, at.depth};
    const Rows<S> dy{given.dy + from * at.value_depth, count, at.value_depth};
    Part<T> weights = products(key, query, space);
    const Part<T> gradients = products(value, dy, space);
    put_tile(space, [&](int row, int column, int i, int j) {
      return weights.at[i][j] =
                 weight(at, given, place, at_query + column, place.row + row, weights.at[i][j]);
    });
    add_products(space, dy, place.column, value_sums);
    __syncthreads();  // whoever reads the weights
    put_tile(space, [&](int, int column, int i, int j) {
      return slope(at, given, place.batch, at_query + column, weights.at[i][j], gradients.at[i][j]);
    });
    add_products(space, query, place.column, key_sums);
  }
  store_part(key_sums, rows, at.depth, place.column, dkey + first * at.depth);
  store_part(value_sums, rows, at.value_depth, place.column, dvalue + first * at.value_depth);
}

template <typename S>
void launch_gradients(const Attention& at, const Buffers& buffers, const LaunchState& state) {
  using T = Wide<S>;
  T* expected = reinterpret_cast<T*>(buffers.workspace);
  const Given<S> given{input<S>(buffers, 0), input<S>(buffers, 1), input<S>(buffers, 2),
                       input<S>(buffers, 3), input<T>(buffers, 5), expected};
  const int64_t rows = at.batches * at.queries;
  launch(state.driver, state.stream, "attention_dots", shape_for(rows * kWarp), dot_rows<S>,
         given.dy, input<S>(buffers, 4), rows, at.value_depth, expected);
  launch(state.driver, state.stream, "attention_dquery", tile_launch<T>(at, at.queries, at.depth),
         attend_back_to_query<S>, at, given, output<S>(buffers, 0));
  launch(state.driver, state.stream, "attention_dkeys",
         tile_launch<T>(at, at.keys, std::max(at.depth, at.value_depth)), attend_back_to_keys<S>,
         at, given, output<S>(buffers, 1), output<S>(buffers, 2));
}

}  // namespace

Kernel prepare_scaled_dot_product_attention_grad(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (is_low_precision(dtype))
    if (std::optional<Kernel> kernel = find_library_attention(request)) return *kernel;
  Kernel kernel = visit_any_float(dtype, [&]<typename S>(S) -> Kernel {
    const Attention extents = attention_of(request, 1, 6);
    return {[extents](const Buffers& buffers, const LaunchState& state) {
              launch_gradients<S>(with_mask(extents, buffers, 6), buffers, state);
            },
            static_cast<size_t>(extents.batches * extents.queries) * sizeof(Wide<S>)};
  });
  kernel.name = name_own_attention(request.step);
  return kernel;
}

}  // namespace flow::cuda
