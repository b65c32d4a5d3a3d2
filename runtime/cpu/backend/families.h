// The exports of each family of kernels: a kernel for each primitive of ops/<family>.cpp.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// Kernels for float32 and for integers.
namespace fast {
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) std::span<const KernelEntry> family();
#include "ops/families.def"
}  // namespace fast

/// Plain loops in float64, for ops whose fast kernels are not plain loops themselves.
namespace reference {
#define FLOW_LAYERS(family)
#define FLOW_ONE_LOOP(family)
#define FLOW_FAMILY(family) std::span<const KernelEntry> family();
#include "ops/families.def"
}  // namespace reference

}  // namespace flow::cpu
