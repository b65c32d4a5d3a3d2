// transpose, concat, stack, split, slice, tile: elements moved to other places. Bits alone matter:
// one kernel for each size of an element.
#include <optional>

#include "runtime/base/array.h"
#include "runtime/base/ceil_div.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

using Integers = std::vector<int64_t>;

const Integers& integers(const Request& request, std::string_view name) {
  return attribute<Integers>(request, name);
}

/// to[loops] = from[loops], n elements; the loops run over `from`, then over `to`.
template <typename T>
__global__ void copy_strided(Loops<2> loops, const T* from, T* to, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    to[at.of[1]] = from[at.of[0]];
  }
}

constexpr int64_t kTile = 32;

/// Two axes that change places, and the others around them.
struct Tiles {
  Loops<2> outer;
  int64_t rows = 1, columns = 1;     // extents: of what is adjacent in `to`, and in `from`
  int64_t from_row = 1, to_row = 1;  // distances along the other axis
  int64_t down = 1, across = 1;      // tiles
  Divider by_down, by_across;
};

/// to[c * to_row + r] = from[r * from_row + c], by tiles through shared memory, so that both sides
/// are reached in the order in which they lie. A block for each tile.
template <typename T>
__global__ void transpose_tiles(Tiles tiles, const T* from, T* to) {
  T* tile = shared<T>();
  const auto across = tiles.by_across.divide(static_cast<int32_t>(blockIdx.x));
  const auto down = tiles.by_down.divide(across.quotient);
  const Offsets<2> at = tiles.outer.at(down.quotient);
  const int64_t r0 = down.remainder * kTile, c0 = across.remainder * kTile;
  const int64_t x = threadIdx.x % kTile;
  for (int64_t y = threadIdx.x / kTile; y < kTile; y += blockDim.x / kTile)
    if (r0 + y < tiles.rows && c0 + x < tiles.columns)
      tile[y * (kTile + 1) + x] = from[at.of[0] + (r0 + y) * tiles.from_row + c0 + x];
  __syncthreads();
  for (int64_t y = threadIdx.x / kTile; y < kTile; y += blockDim.x / kTile)
    if (c0 + y < tiles.columns && r0 + x < tiles.rows)
      to[at.of[1] + (c0 + y) * tiles.to_row + r0 + x] = tile[x * (kTile + 1) + y];
}

/// y[i] = x[i mod the extents of x]
struct Repeats {
  int rank = 0;
  int64_t x[plan::kMaxRank] = {};                      // extents
  Divider by_y[plan::kMaxRank], by_x[plan::kMaxRank];  // by extents
};

/// Index holds n.
template <typename Index, typename T>
__global__ void repeat(Repeats repeats, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    Index rest = static_cast<Index>(i), from = 0, stride = 1;
    for (int axis = repeats.rank - 1; axis >= 0; --axis) {
      const Division<Index> own = repeats.by_y[axis].divide(rest);
      from += repeats.by_x[axis].divide(own.remainder).remainder * stride;
      stride *= static_cast<Index>(repeats.x[axis]);
      rest = own.quotient;
    }
    y[i] = x[from];
  }
}

template <typename T>
void launch_copy(const LaunchState& state, const char* name, const Loops<2>& loops, const T* from,
                 T* to) {
  const int64_t n = loops.elements();
  launch(state.driver, state.stream, name, shape_for(n), copy_strided<T>, loops, from, to, n);
}

/// A part of an array as loops over the part, and where it begins in the whole.
struct Part {
  Loops<2> loops;
  int64_t begin;
};

/// Loops over a part that lies in C order beside others along `axis` of the whole. `whole_first`:
/// the loops run over the whole, then over the part.
Loops<2> part_loops(const Shape& part, const Shape& whole, bool whole_first) {
  Loops<2> loops;
  for (int axis = 0; axis < part.rank(); ++axis) {
    const int64_t own = stride_of(part, axis), there = stride_of(whole, axis);
    loops.add(part[axis], whole_first ? std::array{there, own} : std::array{own, there});
  }
  return loops;
}

/// Joins [outer, extent, inner] parts along their middle axis, or cuts them.
Launch join_launch(const char* name, DType dtype, std::vector<Part> parts, bool together) {
  return visit_size(size_of(dtype), [&]<typename T>(T) -> Launch {
    return [=, parts = std::move(parts)](const Buffers& buffers, const LaunchState& state) {
      for (size_t i = 0; i < parts.size(); ++i) {
        if (together)
          launch_copy(state, name, parts[i].loops, input<T>(buffers, i),
                      output<T>(buffers, 0) + parts[i].begin);
        else if (buffers.outputs[i])
          launch_copy(state, name, parts[i].loops, input<T>(buffers, 0) + parts[i].begin,
                      output<T>(buffers, i));
      }
    };
  });
}

/// Parts of these extents along `axis` of `whole`.
std::vector<Part> parts_of(const Shape& whole, int axis, const Integers& sizes, bool together) {
  std::vector<Part> parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    Shape part = whole;
    part[axis] = size;
    parts.push_back({part_loops(part, whole, !together), begin * stride_of(whole, axis)});
    begin += size;
  }
  return parts;
}

/// Loops over what slice's attributes take of `x`, then over the part in C order.
Part taken_of(const Request& request, const Shape& x, bool into_x) {
  const Shape counts(integers(request, "counts"));
  Part taken{{}, 0};
  for (int axis = 0; axis < counts.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t stride = stride_of(x, axis), own = stride_of(counts, axis);
    const int64_t step = integers(request, "steps")[i] * stride;
    taken.begin += integers(request, "starts")[i] * stride;
    taken.loops.add(counts[axis], into_x ? std::array{own, step} : std::array{step, own});
  }
  return taken;
}

/// The axes of `x` in the order of `perm`, outermost first, those that go on evenly as one.
Loops<2> transpose_loops(const Shape& x, const Shape& y, const Integers& perm) {
  Loops<2> loops;
  for (int axis = 0; axis < y.rank(); ++axis)
    loops.add(y[axis], {stride_of(x, static_cast<int>(perm[static_cast<size_t>(axis)])),
                        stride_of(y, axis)});
  return loops;
}

/// The loops as tiles, where the innermost axis of `from` and that of `to` are two.
std::optional<Tiles> tiles_of(const Loops<2>& loops) {
  const int last = loops.rank - 1;
  int other = -1;
  for (int axis = 0; axis < last; ++axis)
    if (loops.strides[0][axis] == 1) other = axis;
  if (other < 0 || loops.strides[1][last] != 1) return {};
  Tiles tiles;
  for (int axis = 0; axis < last; ++axis)
    if (axis != other)
      tiles.outer.add(loops.extents[axis], {loops.strides[0][axis], loops.strides[1][axis]});
  tiles.rows = loops.extents[last];
  tiles.from_row = loops.strides[0][last];
  tiles.columns = loops.extents[other];
  tiles.to_row = loops.strides[1][other];
  tiles.down = ceil_div(tiles.rows, kTile);
  tiles.across = ceil_div(tiles.columns, kTile);
  tiles.by_down = Divider(tiles.down);
  tiles.by_across = Divider(tiles.across);
  return tiles;
}

template <typename T>
Launch tiles_launch(const Tiles& tiles) {
  const auto blocks = static_cast<unsigned>(tiles.outer.elements() * tiles.down * tiles.across);
  const LaunchShape shape{{blocks}, {kThreads}, kTile * (kTile + 1) * sizeof(T)};
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "transpose", shape, transpose_tiles<T>, tiles,
           input<T>(buffers, 0), output<T>(buffers, 0));
  };
}

}  // namespace

Kernel transpose(const Request& request) {
  const Loops<2> loops =
      transpose_loops(request.inputs[0].shape, request.outputs[0].shape, integers(request, "perm"));
  const auto tiles = tiles_of(loops);
  constexpr int64_t kMostBlocks = INT32_MAX;
  const bool tiled = tiles && tiles->outer.elements() * tiles->down * tiles->across <= kMostBlocks;
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    if (tiled) return {tiles_launch<T>(*tiles)};
    return {[loops](const Buffers& buffers, const LaunchState& state) {
      launch_copy(state, "transpose", loops, input<T>(buffers, 0), output<T>(buffers, 0));
    }};
  });
}

Kernel concat(const Request& request) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  Integers sizes;
  for (const TensorDesc& x : request.inputs) sizes.push_back(x.shape[axis]);
  return {join_launch("concat", request.inputs[0].dtype,
                      parts_of(request.outputs[0].shape, axis, sizes, true), true)};
}

Kernel stack(const Request& request) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  const Integers sizes(request.inputs.size(), 1);
  return {join_launch("stack", request.inputs[0].dtype,
                      parts_of(request.outputs[0].shape, axis, sizes, true), true)};
}

Kernel split(const Request& request) {
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return {join_launch("split", request.inputs[0].dtype,
                      parts_of(request.inputs[0].shape, axis, integers(request, "sizes"), false),
                      false)};
}

Kernel slice(const Request& request) {
  const Part taken = taken_of(request, request.inputs[0].shape, false);
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[taken](const Buffers& buffers, const LaunchState& state) {
      launch_copy(state, "slice", taken.loops, input<T>(buffers, 0) + taken.begin,
                  output<T>(buffers, 0));
    }};
  });
}

Kernel slice_grad(const Request& request) {
  const TensorDesc& dx = request.outputs[0];
  const Part taken = taken_of(request, dx.shape, true);
  const size_t bytes = bytes_of(dx.shape, dx.dtype);
  return visit_float(dx.dtype, [&]<typename T>(T) -> Kernel {
    return {[taken, bytes](const Buffers& buffers, const LaunchState& state) {
      state.driver.clear(buffers.outputs[0], bytes, state.stream);
      launch_copy(state, "slice_grad", taken.loops, input<T>(buffers, 0),
                  output<T>(buffers, 0) + taken.begin);
    }};
  });
}

Kernel tile(const Request& request) {
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  Repeats repeats;
  repeats.rank = x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    repeats.x[axis] = x[axis];
    repeats.by_x[axis] = Divider(x[axis]);
    repeats.by_y[axis] = Divider(y[axis]);
  }
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[repeats, n = y.elements()](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "tile", shape_for(n),
             n < kNarrow ? repeat<int32_t, T> : repeat<int64_t, T>, repeats, input<T>(buffers, 0),
             output<T>(buffers, 0), n);
    }};
  });
}

}  // namespace flow::cuda
