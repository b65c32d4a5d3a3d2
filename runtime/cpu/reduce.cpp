// reduce_sum and reduce_mean over any axes.
#include "runtime/cpu/operands.h"
#include "runtime/cpu/reduction.h"

namespace flow::cpu::fast {
namespace {

Kernel reduce(const Request& request, bool mean) {
  const TensorDesc& x = request.inputs[0];
  std::vector<bool> reduced(static_cast<size_t>(x.shape.rank()), false);
  for (int64_t axis : request.step.attributes.get<std::vector<int64_t>>("axes"))
    reduced[static_cast<size_t>(axis)] = true;
  const Reduction reduction(x, reduced);
  const double factor = mean ? 1.0 / static_cast<double>(reduction.reduced_elements()) : 1.0;
  Kernel kernel;
  kernel.workspace = reduction.workspace();
  kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
    reduction.sum(threads, input<float>(buffers, 0), factor, output<float>(buffers, 0),
                  buffers.workspace);
  };
  return kernel;
}

}  // namespace

Kernel reduce_sum(const Request& request) { return reduce(request, false); }

Kernel reduce_mean(const Request& request) { return reduce(request, true); }

}  // namespace flow::cpu::fast
