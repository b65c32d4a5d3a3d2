// What a library's masks of ReLUs say of 0: asked of the device.
#include "runtime/cuda/masks.h"

#include <algorithm>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/cuda/program_memory.h"

namespace flow::cuda {

bool masks_out_zeros(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver) {
  const size_t out_bytes = aligned(bytes_of(spec.out, sum_of(spec.dtype)));
  const size_t operand_bytes = std::max(
      {aligned(bytes_of(spec.a, spec.dtype)), aligned(bytes_of(spec.b, spec.dtype)), out_bytes});
  std::vector<std::byte> found(static_cast<size_t>(mask_shape(spec.out).elements()));
  const size_t zero_bytes = operand_bytes + out_bytes + aligned(found.size());
  const OwnedStream stream(driver, driver.create_stream());
  // One after another: all operands, which are the same zeros, the result, the mask, a workspace.
  const DeviceBytes memory(driver, driver.allocate(zero_bytes + kernel.workspace));
  std::byte *const zeros = memory.get(), *const out = zeros + operand_bytes,
                   *const mask = out + out_bytes;
  driver.clear(zeros, zero_bytes, stream.get());
  try {
    kernel.run({.first = zeros,
                .second = zeros,
                .bias = spec.epilogue.bias ? zeros : nullptr,
                .out = out,
                .workspace = zeros + zero_bytes,
                .aside = mask},
               stream.get());
  } catch (const RunError&) {  // it was said to work
    return false;
  }
  driver.copy(found.data(), mask, found.size(), stream.get());
  driver.synchronize(stream.get());
  return std::ranges::all_of(found, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace flow::cuda
