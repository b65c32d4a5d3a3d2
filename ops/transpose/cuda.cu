// The kernel of transpose, which reorders axes. It only moves bits, so there is one kernel for each
// size of an element. Between float32 and the 16-bit dtype of a mixed-precision job, it also rounds
// or widens the elements.
#include <optional>

#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

constexpr int64_t kTile = 32;

/// The two axes that are exchanged, and the loops over the other axes.
struct Tiles {
  Loops<2> outer;
  int64_t rows = 1, columns = 1;     // innermost extents of `to` and of `from`
  int64_t from_row = 1, to_row = 1;  // distances along the other axis
  int64_t down = 1, across = 1;      // the numbers of tiles along rows and columns
  Divider by_down, by_across;
};

/// to[c * to_row + r] = from[r * from_row + c]. Each tile is copied through shared memory by one
/// block, so both arrays are accessed in the order in which they are stored.
template <typename From, typename To>
__global__ void transpose_tiles(Tiles tiles, const From* from, To* to) {
  To* tile = shared<To>();
  const auto across = tiles.by_across.divide(static_cast<int32_t>(blockIdx.x));
  const auto down = tiles.by_down.divide(across.quotient);
  const Offsets<2> at = tiles.outer.at(down.quotient);
  const int64_t r0 = down.remainder * kTile, c0 = across.remainder * kTile;
  const int64_t x = threadIdx.x % kTile;
  for (int64_t y = threadIdx.x / kTile; y < kTile; y += blockDim.x / kTile)
    if (r0 + y < tiles.rows && c0 + x < tiles.columns)
      tile[y * (kTile + 1) + x] = convert<To>(from[at.of[0] + (r0 + y) * tiles.from_row + c0 + x]);
  __syncthreads();
  for (int64_t y = threadIdx.x / kTile; y < kTile; y += blockDim.x / kTile)
    if (c0 + y < tiles.columns && r0 + x < tiles.rows)
      to[at.of[1] + (c0 + y) * tiles.to_row + r0 + x] = tile[x * (kTile + 1) + y];
}

/// Returns loops over the axes of `x` in the order of `perm`, outermost first. Axes that are evenly
/// spaced in both arrays are merged into one.
Loops<2> transpose_loops(const Shape& x, const Shape& y, const std::vector<int64_t>& perm) {
  Loops<2> loops;
  for (int axis = 0; axis < y.rank(); ++axis)
    loops.add(y[axis], {stride_of(x, static_cast<int>(perm[static_cast<size_t>(axis)])),
                        stride_of(y, axis)});
  return loops;
}

/// Returns the loops as tiles, or nothing if the innermost axes of `from` and `to` are the same.
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

template <typename From, typename To>
Launch tiles_launch(const Tiles& tiles) {
  const auto blocks = static_cast<unsigned>(tiles.outer.elements() * tiles.down * tiles.across);
  const LaunchShape shape{{blocks}, {kThreads}, kTile * (kTile + 1) * sizeof(To)};
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "transpose", shape, transpose_tiles<From, To>, tiles,
           input<From>(buffers, 0), output<To>(buffers, 0));
  };
}

template <typename From, typename To>
Kernel transpose_kernel(const Loops<2>& loops) {
  const auto tiles = tiles_of(loops);
  constexpr int64_t kMostBlocks = INT32_MAX, kLeast = 8;  // shorter axes leave tiles almost empty
  if (tiles && std::min(tiles->rows, tiles->columns) >= kLeast &&
      tiles->outer.elements() * tiles->down * tiles->across <= kMostBlocks)
    return {tiles_launch<From, To>(*tiles)};
  return {[loops](const Buffers& buffers, const LaunchState& state) {
    launch_copy(state, "transpose", loops, input<From>(buffers, 0), output<To>(buffers, 0));
  }};
}

Kernel prepare_transpose(const Request& request) {
  const Loops<2> loops = transpose_loops(request.inputs[0].shape, request.outputs[0].shape,
                                         attribute<std::vector<int64_t>>(request, "perm"));
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  if (from == to)
    return visit_size(size_of(from), [&]<typename T>(T) { return transpose_kernel<T, T>(loops); });
  const auto between = [&]<typename T>(T) {
    return from == DType::kFloat32 ? transpose_kernel<float, T>(loops)
                                   : transpose_kernel<T, float>(loops);
  };
  const DType low_precision = from == DType::kFloat32 ? to : from;
  return low_precision == DType::kFloat16 ? between(Float16{}) : between(BFloat16{});
}

}  // namespace

std::span<const KernelEntry> kernels::transpose() {
  static constexpr KernelEntry kKernels[] = {
      {"transpose", prepare_transpose},
  };
  return kKernels;
}

}  // namespace flow::cuda
