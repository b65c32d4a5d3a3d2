// Typed pointers to a launch's buffers, and a step's attributes.
#pragma once

#include "runtime/base/visit.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

template <typename T>
const T* input(const Buffers& buffers, size_t i) {
  return reinterpret_cast<const T*>(buffers.inputs[i]);
}

template <typename T>
T* output(const Buffers& buffers, size_t i) {
  return reinterpret_cast<T*>(buffers.outputs[i]);
}

template <typename T>
const T& attribute(const Request& request, std::string_view name) {
  return request.step.attributes.get<T>(name);
}

/// Of the step's first result.
inline int64_t result_elements(const Request& request) {
  return request.outputs[0].shape.elements();
}

}  // namespace flow::cuda
