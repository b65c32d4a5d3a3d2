// What a library's masks of ReLUs say of 0: asked of the device.
#include "runtime/cuda/masks.h"

#include <algorithm>

#include "runtime/cuda/handles.h"

namespace flow::cuda {

MatmulSpec product_of_zeros(DType dtype) {
  return {.dtype = dtype,
          .a = {16, 16},
          .b = {16, 128},
          .out = {16, 128},
          .epilogue = {.bias = false, .relu = true},
          .aside = Aside::kStoreMask};
}

bool masks_out_zeros(const LibraryKernel& kernel, DType dtype, Driver& driver) {
  const MatmulSpec spec = product_of_zeros(dtype);
  const auto mask_bytes = static_cast<size_t>(mask_shape(spec.out).elements());
  const size_t bytes = static_cast<size_t>(spec.out.elements()) * size_of(sum_of(dtype));
  const OwnedStream stream(driver, driver.create_stream());
  // One after another: both operands, which are the same zeros, the result, the mask, a workspace.
  const DeviceBytes memory(driver, driver.allocate(2 * bytes + mask_bytes + kernel.workspace));
  const PinnedBytes mask(driver, driver.allocate_pinned(mask_bytes));
  std::byte *const zeros = memory.get(), *const out = zeros + bytes, *const stored = out + bytes;
  driver.clear(zeros, 2 * bytes + mask_bytes, stream.get());
  kernel.run({zeros, zeros, nullptr, out, stored + mask_bytes, stored}, stream.get());
  driver.copy(mask.get(), stored, mask_bytes, stream.get());
  driver.synchronize(stream.get());
  return std::all_of(mask.get(), mask.get() + mask_bytes,
                     [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace flow::cuda
