// The kernel tables, from kernels.def.
#include <algorithm>
#include <iterator>

#include "runtime/cpu/backend/kernel.h"

namespace flow::cpu {
namespace {

constexpr std::string_view kNarrow[] = {
#define FLOW_CPU_KERNEL(op, layouts)
#define FLOW_CPU_NARROW_KERNEL(op) #op,
#include "runtime/cpu/kernels/kernels.def"
#undef FLOW_CPU_KERNEL
};

constexpr bool is_narrow_kernel(std::string_view op) {
  return std::ranges::find(kNarrow, op) != std::end(kNarrow);
}

constexpr KernelEntry kFast[] = {
#define FLOW_CPU_KERNEL(op, layouts) {#op, fast::op, Layouts::layouts, is_narrow_kernel(#op)},
#include "runtime/cpu/kernels/kernels.def"
#undef FLOW_CPU_KERNEL
};

constexpr KernelEntry kDouble[] = {
#define FLOW_CPU_KERNEL(op, layouts)
#define FLOW_CPU_DOUBLE_KERNEL(op) {#op, doubles::op, Layouts::kPlain},
#define FLOW_CPU_MOVING_KERNEL(op) {#op, fast::op, Layouts::kPlain},
#include "runtime/cpu/kernels/kernels.def"
#undef FLOW_CPU_KERNEL
};

constexpr KernelEntry kReference[] = {
#define FLOW_CPU_KERNEL(op, layouts) {#op, reference::op, Layouts::kPlain},
#include "runtime/cpu/kernels/kernels.def"
#undef FLOW_CPU_KERNEL
};

}  // namespace

std::span<const KernelEntry> fast_kernels() { return kFast; }

std::span<const KernelEntry> double_kernels() { return kDouble; }

std::span<const KernelEntry> reference_kernels() { return kReference; }

const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view op) {
  const auto found = std::ranges::find(kernels, op, &KernelEntry::op);
  return found == kernels.end() ? nullptr : &*found;
}

}  // namespace flow::cpu
