// The kernels of all families.
#include <algorithm>

#include "runtime/cuda/loops/families.h"

namespace flow::cuda {

std::span<const KernelEntry> all_kernels() {
  static const std::vector<KernelEntry> kKernels = [] {
    std::vector<KernelEntry> all;
    for (const auto family : {
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) kernels::family,
#include "ops/families.def"
         })
      all.insert(all.end(), family().begin(), family().end());
    return all;
  }();
  return kKernels;
}

const KernelEntry* find_kernel(std::string_view op) {
  const auto found = std::ranges::find(all_kernels(), op, &KernelEntry::op);
  return found == all_kernels().end() ? nullptr : &*found;
}

}  // namespace flow::cuda
