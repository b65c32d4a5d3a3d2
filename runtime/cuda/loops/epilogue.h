// The epilogue ops of a step that one of NVIDIA's libraries computes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Runs a step without its epilogue ops: a product, or a convolution. Bias is null without one.
using LaunchFused = std::function<void(const Buffers&, const std::byte* bias, const LaunchState&)>;

struct FusedKernel {
  LaunchFused launch;
  size_t workspace = 0;                  // bytes
  std::string name = {};                 // as of LibraryKernel
  std::function<bool()> keeps_nan = {};  // asked where it has a relu; empty: it does
  std::string key = {};                  // the library's description of it
};

/// The epilogue that expresses all epilogue ops of a product or convolution, if there is one: a
/// bias along `bias_axis` of the result, a ReLU, each if any.
std::optional<Epilogue> whole_epilogue(const plan::Step& step, int bias_axis);

/// Asks a library for a step with an epilogue.
using FindFused = std::function<Expected<FusedKernel>(const Epilogue&)>;

/// The step with its epilogue ops: the first of them in the library's epilogue, as many as `find`
/// finds and keeps NaN in, or fewer if the request's timer measures that this is faster. The others
/// are kernels of their own, in place. A bias goes into the
/// epilogue only along `bias_axis` of the result. RunError where the library has not even the bare
/// step.
Kernel with_epilogue(const Request& request, int bias_axis, const FindFused& find);

}  // namespace flow::cuda
