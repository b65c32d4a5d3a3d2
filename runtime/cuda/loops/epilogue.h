// The epilogue ops of a step that one of NVIDIA's libraries computes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Runs a product or a convolution without its epilogue ops. `bias` is null if there is no bias.
using LaunchFused = std::function<void(const Buffers&, const std::byte* bias, const LaunchState&)>;

struct FusedKernel {
  LaunchFused launch;
  size_t workspace = 0;   // bytes
  std::string name = {};  // see LibraryKernel
  // Returns whether the kernel's relu keeps NaN. An empty function means that it does.
  std::function<bool()> keeps_nan = {};
  std::string key = {};  // the library's description of the kernel
};

/// Returns the epilogue that expresses all epilogue ops of a product or convolution (an optional
/// bias along `bias_axis` of the result and an optional ReLU), or nothing if there is none.
std::optional<Epilogue> whole_epilogue(const plan::Step& step, int bias_axis);

/// Requests a step with an epilogue from a library.
using FindFused = std::function<Expected<FusedKernel>(const Epilogue&)>;

/// Returns the step with its epilogue ops. The library's epilogue contains the largest number of
/// leading ops for which `find` returns a kernel that keeps NaN, or fewer if the request's timer
/// measures that this is faster. The remaining ops are separate kernels that run in place. A bias
/// is part of the epilogue only if it is along `bias_axis` of the result. Throws RunError if the
/// library does not even have the bare step.
Kernel with_epilogue(const Request& request, int bias_axis, const FindFused& find);

}  // namespace flow::cuda
