// What each family of kernels exports: a kernel for each primitive of ops/<family>.cpp.
#pragma once

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// Kernels of float32 and of integers.
namespace fast {
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) std::span<const KernelEntry> family();
#include "ops/families.def"
}  // namespace fast

/// Plain loops in float64, of ops of which the fast kernels are no such loops themselves.
namespace reference {
#define FLOW_LAYERS(family)
#define FLOW_ONE_LOOP(family)
#define FLOW_FAMILY(family) std::span<const KernelEntry> family();
#include "ops/families.def"
}  // namespace reference

}  // namespace flow::cpu
