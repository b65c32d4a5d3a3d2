// reduce_sum and reduce_mean over any axes.
#include "runtime/cuda/operands.h"
#include "runtime/cuda/reduction.h"

namespace flow::cuda {
namespace {

Reduction reduction_of(const Request& request) {
  const TensorDesc& x = request.inputs[0];
  std::vector<bool> reduced(static_cast<size_t>(x.shape.rank()), false);
  for (int64_t axis : attribute<std::vector<int64_t>>(request, "axes"))
    reduced[static_cast<size_t>(axis)] = true;
  return {x, reduced};
}

}  // namespace

Kernel reduce_sum(const Request& request) {
  const Reduction reduction = reduction_of(request);
  return {reduction.sum(1), reduction.workspace()};
}

Kernel reduce_mean(const Request& request) {
  const Reduction reduction = reduction_of(request);
  return {reduction.sum(1.0 / static_cast<double>(reduction.terms())), reduction.workspace()};
}

}  // namespace flow::cuda
