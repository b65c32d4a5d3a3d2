// What kernels that move elements have in common: lists of integers as attributes, and a kernel
// that is one strided copy.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/strided_copy.h"

namespace flow::cpu::fast {

inline const std::vector<int64_t>& integers(const Request& request, std::string_view name) {
  return request.step.attributes.get<std::vector<int64_t>>(name);
}

inline Kernel copying(const Request& request, std::vector<StridedCopy::Axis> axes,
                      int64_t from_offset) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, copy = StridedCopy(size_of(request.inputs[0].dtype),
                                                                 std::move(axes), from_offset, 0)](
                      const Buffers& buffers, const CallState&) {
    copy.run(threads, buffers.inputs[0], buffers.outputs[0]);
  };
  return kernel;
}

}  // namespace flow::cpu::fast
