// cumsum and cumprod: cumulative sums and products along an axis. Each block scans its columns tile
// by tile in a fixed order. Floats are added and multiplied in double; integers wrap around.
#include "ops/core/spec.h"
#include "ops/cumsum/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

constexpr int kRun = 4;  // elements of a thread in a tile, adjacent along the axis

/// Scans columns with `join`. load(at, k) returns element k in the order of the scan, whose index
/// is `at`. store(at, before, all) receives the joined elements before element `at`, excluding and
/// including the element. A block scans blockDim.x columns, and its threads share the elements of
/// each column. The result may overwrite the input, because a thread loads its elements of a tile
/// before it stores them.
template <typename Value, typename Join, typename Load, typename Store>
__device__ void scan_columns(const ops::Scan& scan, Value identity, Join join, Load load,
                             Store store) {
  const int64_t width = blockDim.x, tile = static_cast<int64_t>(blockDim.y) * kRun;
  for (int64_t begin = blockIdx.x * width; begin < scan.columns(); begin += gridDim.x * width) {
    const int64_t column = begin + threadIdx.x;
    const int64_t n = column < scan.columns() ? scan.n : 0;
    const int64_t first = scan.start(column) + scan.first(), step = scan.step();
    Value tiles = identity;  // joined elements of the previous tiles
    for (int64_t k = 0; k < scan.n; k += tile) {
      const int64_t own = k + threadIdx.y * kRun;
      Value values[kRun], all = identity;
      for (int i = 0; i < kRun; ++i) {
        values[i] = own + i < n ? load(first + (own + i) * step, own + i) : identity;
        all = join(all, values[i]);
      }
      const ColumnScan<Value> joined = scan_threads(all, identity, join);
      all = join(tiles, joined.before);
      for (int i = 0; i < kRun; ++i) {
        const Value before = all;
        all = join(all, values[i]);
        if (own + i < n) store(first + (own + i) * step, before, all);
      }
      tiles = join(tiles, joined.all);
    }
  }
}

template <typename T, typename Join>
__global__ void scan_elements(ops::Scan scan, ops::ScanValue<T> identity, Join join, const T* x,
                              T* y) {
  using Value = ops::ScanValue<T>;
  scan_columns(
      scan, identity, join, [&](int64_t at, int64_t) { return static_cast<Value>(x[at]); },
      [&](int64_t at, Value before, Value all) {
        y[at] = static_cast<T>(scan.exclusive ? before : all);
      });
}

/// The function s -> add + factor s.
struct Affine {
  double add, factor;
};

struct Compose {
  __device__ Affine operator()(const Affine& first, const Affine& then) const {
    return {then.add + then.factor * first.add, then.factor * first.factor};
  }
};

/// Computes dx[j] = p[j] s[j], where p[j], the product of the elements before x[j], is in `before`,
/// and s[j] = dy[j] + x[j+1] s[j+1]. For exclusive products, s[j] = dy[j+1] + x[j+1] s[j+1]. `scan`
/// runs from the last element to the first.
template <typename T>
__global__ void sum_products(ops::Scan scan, const T* dy, const T* x, const double* before, T* dx) {
  const int64_t next = -scan.step();  // offset of the previously scanned element
  scan_columns(
      scan, Affine{0, 1}, Compose{},
      [&](int64_t at, int64_t k) -> Affine {
        const double own = scan.exclusive ? (k > 0 ? static_cast<double>(dy[at + next]) : 0.0)
                                          : static_cast<double>(dy[at]);
        return {own, k > 0 ? static_cast<double>(x[at + next]) : 0.0};
      },
      [&](int64_t at, const Affine&, const Affine& all) {
        dx[at] = static_cast<T>(before[at] * all.add);
      });
}

/// Computes the product of the elements before each element, in double.
template <typename T>
__global__ void multiply_before(ops::Scan scan, const T* x, double* before) {
  scan_columns(
      scan, 1.0, ops::ScanProduct{},
      [&](int64_t at, int64_t) { return static_cast<double>(x[at]); },
      [&](int64_t at, double product, double) { before[at] = product; });
}

/// Returns blocks with as many rows of threads as a column needs, but with enough columns that the
/// threads of a warp read adjacent elements.
LaunchShape shape_for_scan(const ops::Scan& scan, size_t value_bytes) {
  const int64_t least = std::min<int64_t>(scan.inner, kWarp);
  unsigned high = 1;
  while (high * kRun < scan.n && 2 * high * least <= kThreads) high *= 2;
  const unsigned wide = kThreads / high;
  return {
      {blocks_for(ceil_div<int64_t>(scan.columns(), wide))}, {wide, high}, kThreads * value_bytes};
}

ops::Scan scan_of(const Request& request) {
  return {request.inputs[0].shape, request.step.attributes};
}

template <typename Join>
Kernel prepare_scan(const Request& request) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[scan = scan_of(request), name = request.step.op->name.data()](
                const Buffers& buffers, const LaunchState& state) {
      using Value = ops::ScanValue<T>;
      launch(state, name, shape_for_scan(scan, sizeof(Value)), scan_elements<T, Join>, scan,
             Value{Join::kFirst}, Join{}, input<T>(buffers, 0), output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_cumprod_grad(const Request& request) {
  const ops::Scan scan = scan_of(request);
  ops::Scan back = scan;
  back.reverse = !scan.reverse;
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[=](const Buffers& buffers, const LaunchState& state) {
              auto* before = reinterpret_cast<double*>(buffers.workspace);
              launch(state, "cumprod_before", shape_for_scan(scan, sizeof(double)),
                     multiply_before<T>, scan, input<T>(buffers, 1), before);
              launch(state, "cumprod_grad", shape_for_scan(back, sizeof(Affine)), sum_products<T>,
                     back, input<T>(buffers, 0), input<T>(buffers, 1), before,
                     output<T>(buffers, 0));
            },
            static_cast<size_t>(result_elements(request)) * sizeof(double)};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::cumsum() {
  static constexpr KernelEntry kKernels[] = {
      {"cumsum", prepare_scan<ops::ScanSum>, Order::kOwn},
      {"cumprod", prepare_scan<ops::ScanProduct>, Order::kOwn},
      {"cumprod_grad", prepare_cumprod_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
