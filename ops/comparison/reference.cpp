// Reference: comparisons, what connects bools, and where.
#include <functional>

#include "ops/core/reference_map.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

template <typename F>
Kernel compare(const Request& request) {
  const F f{};
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

Kernel prepare_logical_not(const Request& request) {
  Kernel kernel;
  kernel.launch = [n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                            const CallState&) {
    for (int64_t i = 0; i < n; ++i) output<bool>(buffers, 0)[i] = !input<bool>(buffers, 0)[i];
  };
  return kernel;
}

Kernel prepare_where(const Request& request) {
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    return map_triples<bool, T>(request,
                                [](bool condition, T x, T y) { return condition ? x : y; });
  });
}

}  // namespace

std::span<const KernelEntry> comparison() {
  static constexpr KernelEntry kKernels[] = {
      {"equal", compare<std::equal_to<>>},
      {"not_equal", compare<std::not_equal_to<>>},
      {"greater", compare<std::greater<>>},
      {"greater_equal", compare<std::greater_equal<>>},
      {"less", compare<std::less<>>},
      {"less_equal", compare<std::less_equal<>>},
      {"logical_and", compare<std::logical_and<>>},
      {"logical_or", compare<std::logical_or<>>},
      {"logical_not", prepare_logical_not},
      {"where", prepare_where},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
