// Reference: comparisons, what connects bools, and where.
#include <functional>

#include "runtime/cpu/reference/map.h"

namespace flow::cpu::reference {
namespace {

template <typename F>
Kernel compare(const Request& request, F f) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return map_pairs<bool, bool, bool>(request, f);
  if (is_float(a))
    return visit_float(a, [&]<typename T>(T) { return map_pairs<T, T, bool>(request, f); });
  Kernel kernel;
  kernel.launch = [=, out = request.outputs[0].shape, a_shape = request.inputs[0].shape,
                   b_shape = request.inputs[1].shape](const Buffers& buffers, const CallState&) {
    for (int64_t i = 0, n = out.elements(); i < n; ++i)
      output<bool>(buffers, 0)[i] =
          f(integer_at(a, buffers.inputs[0], operand_index(out, i, a_shape)),
            integer_at(b, buffers.inputs[1], operand_index(out, i, b_shape)));
  };
  return kernel;
}

}  // namespace

Kernel equal(const Request& request) { return compare(request, std::equal_to<>()); }

Kernel not_equal(const Request& request) { return compare(request, std::not_equal_to<>()); }

Kernel greater(const Request& request) { return compare(request, std::greater<>()); }

Kernel greater_equal(const Request& request) { return compare(request, std::greater_equal<>()); }

Kernel less(const Request& request) { return compare(request, std::less<>()); }

Kernel less_equal(const Request& request) { return compare(request, std::less_equal<>()); }

Kernel logical_and(const Request& request) { return compare(request, std::logical_and<>()); }

Kernel logical_or(const Request& request) { return compare(request, std::logical_or<>()); }

Kernel logical_not(const Request& request) {
  Kernel kernel;
  kernel.launch = [n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                            const CallState&) {
    for (int64_t i = 0; i < n; ++i) output<bool>(buffers, 0)[i] = !input<bool>(buffers, 0)[i];
  };
  return kernel;
}

Kernel where(const Request& request) {
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    return map_triples<bool, T>(request,
                                [](bool condition, T x, T y) { return condition ? x : y; });
  });
}

}  // namespace flow::cpu::reference
