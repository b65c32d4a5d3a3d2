// Reference: elements picked, written and added up along an axis.
#include <cstring>

#include "ops/core/cpu_labels.h"
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// Calls visit(i, j) for each index in range, in their order: element i of the indices belongs to
/// element j of operand 0.
template <typename Visit>
void for_indices(const Around& x, const Around& indices, DType dtype, const std::byte* elements,
                 Visit visit) {
  for (int64_t i = 0; i < indices.outer * indices.extent * indices.inner; ++i) {
    const int64_t index = integer_at(dtype, elements, i);
    const int64_t o = i / (indices.extent * indices.inner);
    if (0 <= index && index < x.extent) visit(i, (o * x.extent + index) * x.inner + i % x.inner);
  }
}

/// Zero where an index is out of range, which stops the run.
Kernel prepare_take_along_axis(const Request& request) {
  const TensorDesc& indices = request.inputs[1];
  const Around x(request.inputs[0].shape, axis_of(request)),
      picked(indices.shape, axis_of(request));
  Kernel kernel;
  kernel.launch = [=, dtype = indices.dtype, element = size_of(request.inputs[0].dtype),
                   n = static_cast<size_t>(indices.shape.elements()),
                   check = LabelCheck(request, indices, x.extent)](const Buffers& buffers,
                                                                   const CallState& state) {
    check.run(buffers.inputs[1], state);
    std::memset(buffers.outputs[0], 0, n * element);
    for_indices(x, picked, dtype, buffers.inputs[1], [&](int64_t i, int64_t j) {
      std::memcpy(buffers.outputs[0] + static_cast<size_t>(i) * element,
                  buffers.inputs[0] + static_cast<size_t>(j) * element, element);
    });
  };
  return kernel;
}

/// Calls update(y, updates, j, i), of bytes, for each index.
template <typename Update>
Kernel updating(const Request& request, Update update) {
  const TensorDesc& indices = request.inputs[1];
  const Around x(request.inputs[0].shape, axis_of(request)),
      picked(indices.shape, axis_of(request));
  Kernel kernel;
  kernel.launch = [=, dtype = indices.dtype,
                   bytes = static_cast<size_t>(request.inputs[0].shape.elements()) *
                           size_of(request.inputs[0].dtype),
                   check = LabelCheck(request, indices, x.extent)](const Buffers& buffers,
                                                                   const CallState& state) {
    check.run(buffers.inputs[1], state);
    std::memmove(buffers.outputs[0], buffers.inputs[0], bytes);
    for_indices(x, picked, dtype, buffers.inputs[1],
                [&](int64_t i, int64_t j) { update(buffers, i, j); });
  };
  return kernel;
}

Kernel prepare_put_along_axis(const Request& request) {
  return updating(request, [element = size_of(request.inputs[0].dtype)](const Buffers& buffers,
                                                                        int64_t i, int64_t j) {
    std::memcpy(buffers.outputs[0] + static_cast<size_t>(j) * element,
                buffers.inputs[2] + static_cast<size_t>(i) * element, element);
  });
}

Kernel prepare_add_along_axis(const Request& request) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    return updating(request, [](const Buffers& buffers, int64_t i, int64_t j) {
      using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
      T& y = output<T>(buffers, 0)[j];
      y = static_cast<T>(static_cast<Sum>(y) + static_cast<Sum>(input<T>(buffers, 2)[i]));
    });
  });
}

}  // namespace

std::span<const KernelEntry> indexing() {
  static constexpr KernelEntry kKernels[] = {
      {"take_along_axis", prepare_take_along_axis},
      {"put_along_axis", prepare_put_along_axis},
      {"add_along_axis", prepare_add_along_axis},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
