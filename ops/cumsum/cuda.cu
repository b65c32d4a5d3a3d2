// cumsum, cumprod: cumulative sums and products along an axis. Each block scans its columns tile by
// tile, in a fixed order. Floats are added and multiplied in double; integers wrap around.
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
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
using ScanValue = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

struct ScanProduct {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};

/// Joins the elements of each column. load(at, k): element k in the order of the scan, which lies
/// at `at`. store(at, before, all): what is joined of those before it, and with it. A block for
/// blockDim.x columns; its threads share the elements of each. May be in place: a thread loads its
/// elements of a tile before it stores them.
template <typename Value, typename Join, typename Load, typename Store>
__device__ void scan_columns(const Scan& scan, Value identity, Join join, Load load, Store store) {
  const int64_t width = blockDim.x, tile = static_cast<int64_t>(blockDim.y) * kRun;
  const int64_t step = scan.reverse ? -scan.inner : scan.inner;
  for (int64_t begin = blockIdx.x * width; begin < scan.columns; begin += gridDim.x * width) {
    const int64_t column = begin + threadIdx.x;
    const int64_t n = column < scan.columns ? scan.n : 0;
    const int64_t first = column / scan.inner * scan.n * scan.inner + column % scan.inner +
                          (scan.reverse ? (scan.n - 1) * scan.inner : 0);
    Value tiles = identity;  // before this one
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
__global__ void scan_elements(Scan scan, ScanValue<T> identity, Join join, const T* x, T* y) {
  using Value = ScanValue<T>;
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

/// dx[j] = p[j] s[j], where dx has p[j], the product of what comes before x[j], in double precision
/// of `before`; s[j] = dy[j] + x[j+1] s[j+1], of exclusive products dy[j+1] + x[j+1] s[j+1]. `scan`
/// goes from the last element to the first.
template <typename T>
__global__ void sum_products(Scan scan, const T* dy, const T* x, const double* before, T* dx) {
  const int64_t next = scan.reverse ? scan.inner : -scan.inner;  // to the element scanned before
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

/// Products of what comes before each element, in double.
template <typename T>
__global__ void multiply_before(Scan scan, const T* x, double* before) {
  scan_columns(
      scan, 1.0, ScanProduct{}, [&](int64_t at, int64_t) { return static_cast<double>(x[at]); },
      [&](int64_t at, double product, double) { before[at] = product; });
}

/// Blocks as high as a column needs, but wide enough that warps read adjacent elements.
LaunchShape shape_for_scan(const Scan& scan, size_t value_bytes) {
  const int64_t least = std::min<int64_t>(scan.inner, kWarp);
  unsigned high = 1;
  while (high * kRun < scan.n && 2 * high * least <= kThreads) high *= 2;
  const unsigned wide = kThreads / high;
  return {
      {blocks_for(ceil_div<int64_t>(scan.columns, wide))}, {wide, high}, kThreads * value_bytes};
}

Scan scan_of(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return {x.elements() / x[axis], x[axis], stride_of(x, axis),
          attribute<bool>(request, "exclusive"), attribute<bool>(request, "reverse")};
}

template <typename Join>
Kernel prepare_scan(const Request& request, const char* name, int identity) {
  const Scan scan = scan_of(request);
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const LaunchShape shape = shape_for_scan(scan, sizeof(ScanValue<T>));
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, name, shape, scan_elements<T, Join>, scan,
             static_cast<ScanValue<T>>(identity), Join{}, input<T>(buffers, 0),
             output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_cumsum(const Request& request) { return prepare_scan<Sum>(request, "cumsum", 0); }

Kernel prepare_cumprod(const Request& request) {
  return prepare_scan<ScanProduct>(request, "cumprod", 1);
}

Kernel prepare_cumprod_grad(const Request& request) {
  const Scan scan = scan_of(request);
  Scan back = scan;
  back.reverse = !scan.reverse;
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    Kernel kernel{[=](const Buffers& buffers, const LaunchState& state) {
      auto* before = reinterpret_cast<double*>(buffers.workspace);
      launch(state.driver, state.stream, "cumprod_before", shape_for_scan(scan, sizeof(double)),
             multiply_before<T>, scan, input<T>(buffers, 1), before);
      launch(state.driver, state.stream, "cumprod_grad", shape_for_scan(back, sizeof(Affine)),
             sum_products<T>, back, input<T>(buffers, 0), input<T>(buffers, 1), before,
             output<T>(buffers, 0));
    }};
    kernel.workspace = static_cast<size_t>(result_elements(request)) * sizeof(double);
    return kernel;
  });
}

}  // namespace

std::span<const KernelEntry> kernels::cumsum() {
  static constexpr KernelEntry kKernels[] = {
      {"cumsum", prepare_cumsum, Order::kOwn},
      {"cumprod", prepare_cumprod, Order::kOwn},
      {"cumprod_grad", prepare_cumprod_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
