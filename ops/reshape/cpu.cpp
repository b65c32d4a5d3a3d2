// The kernel of reshape, which gives elements in C order another shape. It copies, or reorders a
// channels-last operand into C order. If both layouts are plain, the backend usually shares the
// memory.
#include <algorithm>
#include <cstring>

#include "ops/reshape/cpu.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu::fast {
namespace {

bool is_plain(const TensorDesc& desc) {
  return desc.layout == Layout::kPlain || layouts_coincide(desc.shape);
}

void copy_bytes(int threads, size_t bytes, const std::byte* in, std::byte* out) {
  if (in == out) return;
  constexpr size_t kChunk = size_t{1} << 18;
  parallel_for(threads, static_cast<int64_t>(ceil_div(bytes, kChunk)), [&](int64_t chunk, int) {
    const size_t first = static_cast<size_t>(chunk) * kChunk;
    std::memcpy(out + first, in + first, std::min(kChunk, bytes - first));
  });
}

}  // namespace

Kernel prepare_reshape(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const size_t element = size_of(x.dtype);
  const size_t bytes = static_cast<size_t>(x.shape.elements()) * element;
  const bool from_plain = is_plain(x), to_plain = is_plain(y);
  Kernel kernel;
  if ((from_plain && to_plain) || (x.shape == y.shape && x.layout == y.layout)) {
    kernel.launch = [threads = request.threads, bytes](const Buffers& b, const CallState&) {
      copy_bytes(threads, bytes, b.inputs[0], b.outputs[0]);
    };
    return kernel;
  }
  // Reorders through C order, in which one of the two buffers is stored unless both are
  // channels-last.
  if (!from_plain && !to_plain) kernel.workspace = bytes;
  kernel.launch = [=, threads = request.threads, in = x.shape, out = y.shape](const Buffers& b,
                                                                              const CallState&) {
    const std::byte* plain = b.inputs[0];
    if (!from_plain) {
      std::byte* into = to_plain ? b.outputs[0] : b.workspace;
      reorder(threads, element, in, Layout::kChannelsLast, plain, Layout::kPlain, into);
      plain = into;
    }
    if (!to_plain)
      reorder(threads, element, out, Layout::kPlain, plain, Layout::kChannelsLast, b.outputs[0]);
  };
  return kernel;
}

std::span<const KernelEntry> reshape() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "reshape", .prepare = prepare_reshape, .layouts = Layouts::kEach, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
