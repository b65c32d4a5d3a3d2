// The kernel tables, from kernels.def.
#include <algorithm>

#include "runtime/cuda/program/kernel.h"

namespace flow::cuda {
namespace {

constexpr KernelEntry kKernels[] = {
#define FLOW_CUDA_KERNEL(op, posts) {#op, op, Posts::posts},
#define FLOW_CUDA_UPDATE(op)
#include "runtime/cuda/kernels/kernels.def"
#undef FLOW_CUDA_KERNEL
#undef FLOW_CUDA_UPDATE
};

constexpr UpdatesEntry kUpdates[] = {
#define FLOW_CUDA_KERNEL(op, posts)
#define FLOW_CUDA_UPDATE(op) {#op, op},
#include "runtime/cuda/kernels/kernels.def"
#undef FLOW_CUDA_KERNEL
#undef FLOW_CUDA_UPDATE
};

template <typename Entry>
const Entry* find(std::span<const Entry> entries, std::string_view op) {
  const auto found = std::ranges::find(entries, op, &Entry::op);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

std::span<const KernelEntry> kernels() { return kKernels; }

std::span<const UpdatesEntry> updates() { return kUpdates; }

const KernelEntry* find_kernel(std::string_view op) { return find(kernels(), op); }

const UpdatesEntry* find_update(std::string_view op) { return find(updates(), op); }

}  // namespace flow::cuda
