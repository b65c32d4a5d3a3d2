// Reference: sums and means over axes, and repetition to a larger shape.
#include "runtime/cpu/reference/index.h"

namespace flow::cpu::reference {
namespace {

/// `shape` with the axes that are summed over kept as 1: what operand_index finds sums by.
Shape with_ones(Shape shape, const std::vector<int64_t>& axes) {
  for (int64_t axis : axes) shape[static_cast<int>(axis)] = 1;
  return shape;
}

Kernel reduce(const Request& request, bool mean) {
  const Shape x_shape = request.inputs[0].shape;
  const Shape sums_shape =
      with_ones(x_shape, request.step.attributes.get<std::vector<int64_t>>("axes"));
  const int64_t n = x_shape.elements(), sums_count = sums_shape.elements();
  const double divisor = mean ? static_cast<double>(n / sums_count) : 1.0;
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(sums_count) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      double* sums = reinterpret_cast<double*>(buffers.workspace);
      std::fill_n(sums, sums_count, 0.0);
      for (int64_t i = 0; i < n; ++i)
        sums[operand_index(x_shape, i, sums_shape)] += static_cast<double>(input<T>(buffers, 0)[i]);
      for (int64_t i = 0; i < sums_count; ++i)
        output<T>(buffers, 0)[i] = static_cast<T>(sums[i] / divisor);
    };
  });
  return kernel;
}

}  // namespace

Kernel reduce_sum(const Request& request) { return reduce(request, false); }

Kernel reduce_mean(const Request& request) { return reduce(request, true); }

Kernel broadcast_to(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [x = request.inputs[0].shape, out = request.outputs[0].shape](
                        const Buffers& buffers, const CallState&) {
      for (int64_t i = 0, n = out.elements(); i < n; ++i)
        output<T>(buffers, 0)[i] = input<T>(buffers, 0)[operand_index(out, i, x)];
    };
  });
  return kernel;
}

}  // namespace flow::cpu::reference
