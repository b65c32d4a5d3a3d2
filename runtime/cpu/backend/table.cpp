// The kernels of all families.
#include <algorithm>

#include "runtime/cpu/backend/families.h"

namespace flow::cpu {
namespace {

using Family = std::span<const KernelEntry> (*)();

std::vector<KernelEntry> kernels_of(std::initializer_list<Family> families) {
  std::vector<KernelEntry> kernels;
  for (const Family family : families)
    kernels.insert(kernels.end(), family().begin(), family().end());
  return kernels;
}

}  // namespace

std::span<const KernelEntry> fast_kernels() {
  static const std::vector<KernelEntry> kKernels = kernels_of({
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) fast::family,
#include "ops/families.def"
  });
  return kKernels;
}

std::span<const KernelEntry> double_kernels() {
  static const std::vector<KernelEntry> kKernels = [] {
    std::vector<KernelEntry> kernels;
    for (const KernelEntry& entry : fast_kernels())
      if (entry.float64 || entry.any_dtype)
        kernels.push_back({entry.op, entry.float64 ? entry.float64 : entry.prepare});
    return kernels;
  }();
  return kKernels;
}

std::span<const KernelEntry> reference_kernels() {
  static const std::vector<KernelEntry> kKernels = kernels_of({
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) reference::family,
#include "ops/families.def"
  });
  return kKernels;
}

const KernelEntry* find_kernel(std::span<const KernelEntry> kernels, std::string_view op) {
  const auto found = std::ranges::find(kernels, op, &KernelEntry::op);
  return found == kernels.end() ? nullptr : &*found;
}

}  // namespace flow::cpu
