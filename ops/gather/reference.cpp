// Reference: slices picked by indices, added up at them or written there, and one_hot.
#include <algorithm>
#include <cstring>

#include "ops/core/cpu_labels.h"
#include "ops/core/reference_loops.h"
#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/families.h"

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
      if (index < 0 || index >= params.extent) {  // the place of any number could overflow
        std::memset(to, 0, element);
        continue;
      }
      const int64_t from = (o * params.extent + index) * params.inner + i % params.inner;
      std::memcpy(to, buffers.inputs[0] + static_cast<size_t>(from) * element, element);
    }
  };
  return kernel;
}

/// gather_grad(indices, dy) adds onto zeros, scatter_add(in, indices, updates) onto operand 0. Of
/// the former, gather has checked the indices.
Kernel prepare_scatter(const Request& request) {
  const Around around(request.outputs[0].shape, axis_of(request));
  const size_t at = request.inputs.size() - 2;  // of the indices
  const TensorDesc& indices = request.inputs[at];
  Kernel kernel;
  visit_float(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, dtype = indices.dtype, count = indices.shape.elements(),
                     n = request.inputs[at + 1].shape.elements(),
                     check = LabelCheck(request, indices, around.extent)](const Buffers& buffers,
                                                                          const CallState& state) {
      T* out = output<T>(buffers, 0);
      const int64_t elements = around.outer * around.extent * around.inner;
      if (at > 0) {
        check.run(buffers.inputs[at], state);
        std::copy_n(input<T>(buffers, 0), elements, out);
      } else {
        std::fill_n(out, elements, T{0});
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t o = i / (count * around.inner);
        const int64_t index = integer_at(dtype, buffers.inputs[at], i / around.inner % count);
        if (index < 0 || index >= around.extent) continue;
        out[(o * around.extent + index) * around.inner + i % around.inner] +=
            input<T>(buffers, at + 1)[i];
      }
    };
  });
  return kernel;
}

/// The rows of every index of the extent, one after the other.
Kernel prepare_sparse_gather_grad(const Request& request) {
  const TensorDesc &indices = request.inputs[0], &dy = request.inputs[1];
  Kernel kernel;
  visit_float(dy.dtype, [&]<typename T>(T) {
    kernel.launch = [dtype = indices.dtype, count = indices.shape.elements(),
                     inner = dy.shape.elements() / indices.shape.elements(),
                     extent = request.step.attributes.get<int64_t>("extent")](
                        const Buffers& buffers, const CallState&) {
      T* rows = output<T>(buffers, 0);
      std::fill_n(rows, count * inner, T{0});
      std::fill_n(output<int64_t>(buffers, 1), count, -1);
      int64_t r = 0;
      for (int64_t index = 0; index < extent; ++index) {
        bool found = false;
        for (int64_t i = 0; i < count; ++i) {
          if (integer_at(dtype, buffers.inputs[0], i) != index) continue;
          found = true;
          for (int64_t k = 0; k < inner; ++k)
            rows[r * inner + k] += input<T>(buffers, 1)[i * inner + k];
        }
        if (found) output<int64_t>(buffers, 1)[r++] = index;
      }
    };
  });
  return kernel;
}

/// May be in place.
Kernel prepare_scatter_update(const Request& request) {
  const Around around(request.outputs[0].shape, axis_of(request));
  const TensorDesc& indices = request.inputs[1];
  Kernel kernel;
  kernel.launch = [=, dtype = indices.dtype, count = indices.shape.elements(),
                   n = request.inputs[2].shape.elements(),
                   elements = request.outputs[0].shape.elements(),
                   element = size_of(request.inputs[0].dtype),
                   check = LabelCheck(request, indices, around.extent)](const Buffers& buffers,
                                                                        const CallState& state) {
    check.run(buffers.inputs[1], state);
    std::memmove(buffers.outputs[0], buffers.inputs[0], static_cast<size_t>(elements) * element);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t o = i / (count * around.inner);
      const int64_t index = integer_at(dtype, buffers.inputs[1], i / around.inner % count);
      if (index < 0 || index >= around.extent) continue;
      const int64_t to = (o * around.extent + index) * around.inner + i % around.inner;
      std::memcpy(buffers.outputs[0] + static_cast<size_t>(to) * element,
                  buffers.inputs[2] + static_cast<size_t>(i) * element, element);
    }
  };
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
      {"gather", prepare_gather},       {"gather_grad", prepare_scatter},
      {"scatter_add", prepare_scatter}, {"scatter_update", prepare_scatter_update},
      {"one_hot", prepare_one_hot},     {"sparse_gather_grad", prepare_sparse_gather_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
