// Sums over any axes.
#include "runtime/cuda/loops/reduction.h"

#include "runtime/base/convert.h"
#include "runtime/cuda/loops/reduce_tree.cuh"

namespace flow::cuda {
namespace {

template <typename T>
struct ScaledSum {
  using Sum = double;
  double factor;
  __device__ Sum first() const { return 0; }
  __device__ Sum term(T x, int64_t) const { return convert<Sum>(x); }
  __device__ Sum join(Sum a, Sum b) const { return a + b; }
  __device__ Wide<T> last(Sum sum, int64_t) const { return static_cast<Wide<T>>(factor * sum); }
};

}  // namespace

Reduction::Reduction(const TensorDesc& x, const std::vector<bool>& reduced)
    : dtype_(x.dtype), plan_(x.shape, reduced) {}

Launch Reduction::sum(double factor) const {
  return visit_any_float(dtype_, [&]<typename T>(T) -> Launch {
    return [factor, plan = plan_](const Buffers& buffers, const LaunchState& state) {
      launch_reduce("sum", ScaledSum<T>{factor}, plan, input<T>(buffers, 0),
                    output<Wide<T>>(buffers, 0), buffers.workspace, state);
    };
  });
}

}  // namespace flow::cuda
