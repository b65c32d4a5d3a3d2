// Reference: elements picked by indices, the gradient, and one_hot.
#include <algorithm>
#include <cstring>

#include "runtime/base/convert.h"
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/kernels/labels.h"
#include "runtime/cpu/reference/around.h"

namespace flow::cpu::reference {
namespace {

/// Zero where an index is out of range, which stops the run.
Kernel prepare_gather(const Request& request) {
  const Around params(request.inputs[0].shape, axis_of(request));
  const TensorDesc& indices = request.inputs[1];
  Kernel kernel;
  kernel.launch = [=, dtype = indices.dtype, count = indices.shape.elements(),
                   n = request.outputs[0].shape.elements(),
                   element = size_of(request.inputs[0].dtype),
                   check = LabelCheck(request, indices, params.extent)](const Buffers& buffers,
                                                                        const CallState& state) {
    check.run(buffers.inputs[1], state);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t o = i / (count * params.inner);
      const int64_t index = integer_at(dtype, buffers.inputs[1], i / params.inner % count);
      std::byte* to = buffers.outputs[0] + static_cast<size_t>(i) * element;
      const int64_t from = (o * params.extent + index) * params.inner + i % params.inner;
      if (index < 0 || index >= params.extent)
        std::memset(to, 0, element);
      else
        std::memcpy(to, buffers.inputs[0] + static_cast<size_t>(from) * element, element);
    }
  };
  return kernel;
}

Kernel prepare_gather_grad(const Request& request) {
  const Around dx(request.outputs[0].shape, axis_of(request));
  const TensorDesc& indices = request.inputs[0];
  Kernel kernel;
  visit_float(request.inputs[1].dtype, [&]<typename T>(T) {
    kernel.launch = [=, dtype = indices.dtype, count = indices.shape.elements(),
                     n = request.inputs[1].shape.elements()](const Buffers& buffers,
                                                             const CallState&) {
      T* out = output<T>(buffers, 0);
      std::fill_n(out, dx.outer * dx.extent * dx.inner, T{0});
      for (int64_t i = 0; i < n; ++i) {
        const int64_t o = i / (count * dx.inner);
        const int64_t index = integer_at(dtype, buffers.inputs[0], i / dx.inner % count);
        if (index < 0 || index >= dx.extent) continue;
        out[(o * dx.extent + index) * dx.inner + i % dx.inner] += input<T>(buffers, 1)[i];
      }
    };
  });
  return kernel;
}

Kernel prepare_one_hot(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  const double on = attributes.get<double>("on_value"), off = attributes.get<double>("off_value");
  const int64_t depth = attributes.get<int64_t>("depth");
  const TensorDesc& indices = request.inputs[0];
  Kernel kernel;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, dtype = indices.dtype, n = request.outputs[0].shape.elements(),
                     check = LabelCheck(request, indices, depth)](const Buffers& buffers,
                                                                  const CallState& state) {
      check.run(buffers.inputs[0], state);
      for (int64_t i = 0; i < n; ++i) {
        const bool there = integer_at(dtype, buffers.inputs[0], i / depth) == i % depth;
        output<T>(buffers, 0)[i] = convert<T>(there ? on : off);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> gather() {
  static constexpr KernelEntry kKernels[] = {
      {"gather", prepare_gather},
      {"gather_grad", prepare_gather_grad},
      {"one_hot", prepare_one_hot},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
