// cumsum: cumulative sums along an axis. Each block scans its columns tile by tile, in a fixed
// order. Floats are summed in double; integers wrap around.
#include "runtime/cuda/kernels/families.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// x and y are (columns / inner, n, inner), summed over n.
struct Scan {
  int64_t columns, n, inner;
  bool exclusive, reverse;
};

constexpr int kRun = 4;  // elements of a thread in a tile, adjacent along the axis

template <typename T>
using ScanSum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

/// A block for blockDim.x columns; its threads share the elements of each. May be in place: a
/// thread reads its elements of a tile before it writes them.
template <typename T>
__global__ void scan_columns(Scan scan, const T* x, T* y) {
  using Sum = ScanSum<T>;
  const int64_t width = blockDim.x, tile = static_cast<int64_t>(blockDim.y) * kRun;
  const int64_t step = scan.reverse ? -scan.inner : scan.inner;
  for (int64_t begin = blockIdx.x * width; begin < scan.columns; begin += gridDim.x * width) {
    const int64_t column = begin + threadIdx.x;
    const int64_t n = column < scan.columns ? scan.n : 0;
    const int64_t first = column / scan.inner * scan.n * scan.inner + column % scan.inner +
                          (scan.reverse ? (scan.n - 1) * scan.inner : 0);
    Sum tiles = 0;  // before this one
    for (int64_t k = 0; k < scan.n; k += tile) {
      const int64_t own = k + threadIdx.y * kRun;
      Sum values[kRun], sum = 0;
      for (int i = 0; i < kRun; ++i) {
        values[i] = own + i < n ? static_cast<Sum>(x[first + (own + i) * step]) : Sum{0};
        sum += values[i];
      }
      const ColumnSums<Sum> sums = sum_of_threads(sum);
      sum = tiles + sums.before;
      for (int i = 0; i < kRun; ++i) {
        const Sum before = sum;
        sum += values[i];
        if (own + i < n)
          y[first + (own + i) * step] = static_cast<T>(scan.exclusive ? before : sum);
      }
      tiles += sums.all;
    }
  }
}

/// Blocks as high as a column needs, but wide enough that warps read adjacent elements.
LaunchShape shape_for_scan(const Scan& scan, size_t sum_bytes) {
  const int64_t least = std::min<int64_t>(scan.inner, kWarp);
  unsigned high = 1;
  while (high * kRun < scan.n && 2 * high * least <= kThreads) high *= 2;
  const unsigned wide = kThreads / high;
  return {{blocks_for(ceil_div<int64_t>(scan.columns, wide))}, {wide, high}, kThreads * sum_bytes};
}

Kernel prepare_cumsum(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  const Scan scan{x.elements() / x[axis], x[axis], stride_of(x, axis),
                  attribute<bool>(request, "exclusive"), attribute<bool>(request, "reverse")};
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const LaunchShape shape = shape_for_scan(scan, sizeof(ScanSum<T>));
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "cumsum", shape, scan_columns<T>, scan,
             input<T>(buffers, 0), output<T>(buffers, 0));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::cumsum() {
  static constexpr KernelEntry kKernels[] = {
      {"cumsum", prepare_cumsum, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
