// Reference: elements moved one by one, by their places along the axes.
#pragma once

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {

/// An attribute of the step.
inline const std::vector<int64_t>& integers(const Request& request, std::string_view name) {
  return request.step.attributes.get<std::vector<int64_t>>(name);
}

using AxisPlaces = std::array<int64_t, plan::kMaxRank>;

/// The place along each axis of element i.
inline AxisPlaces places_of(const Shape& shape, int64_t i) {
  AxisPlaces places{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    places[static_cast<size_t>(axis)] = i % shape[axis];
    i /= shape[axis];
  }
  return places;
}

inline int64_t index_at(const Shape& shape, const AxisPlaces& places) {
  int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    index = index * shape[axis] + places[static_cast<size_t>(axis)];
  return index;
}

/// y[i] = x[source(i)] for every element of a result like this, of any dtype.
template <typename Source>
Kernel moving(const Request& request, Source source) {
  Kernel kernel;
  kernel.launch = [source, element = size_of(request.inputs[0].dtype),
                   n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                            const CallState&) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(buffers.outputs[0] + static_cast<size_t>(i) * element,
                  buffers.inputs[0] + static_cast<size_t>(source(i)) * element, element);
  };
  return kernel;
}

/// dx[source(i)] += dy[i], from zero.
template <typename Source>
Kernel scattering(const Request& request, Source source) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [source, n = request.inputs[0].shape.elements(),
                     m = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                              const CallState&) {
      for (int64_t j = 0; j < m; ++j) output<T>(buffers, 0)[j] = 0;
      for (int64_t i = 0; i < n; ++i) output<T>(buffers, 0)[source(i)] += input<T>(buffers, 0)[i];
    };
  });
  return kernel;
}

/// The same elements in the same order.
inline Kernel moving_all(const Request& request) {
  const TensorDesc& x = request.inputs[0];
  Kernel kernel;
  kernel.launch = [bytes = bytes_of(x.shape, x.dtype)](const Buffers& buffers, const CallState&) {
    std::memmove(buffers.outputs[0], buffers.inputs[0], bytes);
  };
  return kernel;
}

}  // namespace flow::cpu::reference
