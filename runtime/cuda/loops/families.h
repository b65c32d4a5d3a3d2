// The exports of each family of kernels: a kernel for each primitive of ops/<family>.cpp.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda::kernels {

#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) std::span<const KernelEntry> family();
#include "ops/families.def"

}  // namespace flow::cuda::kernels
