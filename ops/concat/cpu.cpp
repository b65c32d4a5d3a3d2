// concat, stack and split: several arrays as parts of one, a strided copy each.
#include "ops/core/cpu_strided_kernel.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;

/// The distances of `whole` along the axes of a part that has not its axis `axis`.
Integers without_axis(Integers strides, int64_t axis) {
  strides.erase(strides.begin() + axis);
  return strides;
}

/// A copy for each of several parts of one array: into it, or out of it.
enum class Way { kTogether, kApart };

Kernel copying_parts(const Request& request, Way way, std::vector<StridedCopy> parts) {
  Kernel kernel;
  kernel.launch = [way, threads = request.threads, parts = std::move(parts)](const Buffers& buffers,
                                                                             const CallState&) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (way == Way::kTogether)
        parts[i].run(threads, buffers.inputs[i], buffers.outputs[0]);
      else if (buffers.outputs[i])
        parts[i].run(threads, buffers.inputs[0], buffers.outputs[i]);
    }
  };
  return kernel;
}

Kernel prepare_concat(const Request& request) {
  const Integers to = strides_of(request.outputs[0]);
  const auto axis = static_cast<size_t>(axis_of(request));
  std::vector<StridedCopy> parts;
  int64_t begin = 0;
  for (const TensorDesc& x : request.inputs) {
    parts.emplace_back(size_of(x.dtype), axes_of(x.shape, strides_of(x), to), 0, begin * to[axis]);
    begin += x.shape[static_cast<int>(axis)];
  }
  return copying_parts(request, Way::kTogether, std::move(parts));
}

Kernel prepare_stack(const Request& request) {
  const int64_t axis = axis_of(request);
  const Integers whole = strides_of(request.outputs[0]), to = without_axis(whole, axis);
  std::vector<StridedCopy> parts;
  for (const TensorDesc& x : request.inputs)
    parts.emplace_back(size_of(x.dtype), axes_of(x.shape, strides_of(x), to), 0,
                       static_cast<int64_t>(parts.size()) * whole[static_cast<size_t>(axis)]);
  return copying_parts(request, Way::kTogether, std::move(parts));
}

Kernel prepare_split(const Request& request) {
  const Integers from = strides_of(request.inputs[0]);
  const auto axis = static_cast<size_t>(axis_of(request));
  std::vector<StridedCopy> parts;
  int64_t begin = 0;
  for (const int64_t size : integers(request, "sizes")) {
    // The description of a part that nobody reads is another's; its own is not needed then.
    TensorDesc part = request.outputs[parts.size()];
    part.shape[static_cast<int>(axis)] = size;
    parts.emplace_back(size_of(part.dtype), axes_of(part.shape, from, strides_of(part)),
                       begin * from[axis], 0);
    begin += size;
  }
  return copying_parts(request, Way::kApart, std::move(parts));
}

}  // namespace

std::span<const KernelEntry> concat() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "concat", .prepare = prepare_concat, .layouts = Layouts::kSame, .any_dtype = true},
      {.op = "stack", .prepare = prepare_stack, .any_dtype = true},
      {.op = "split", .prepare = prepare_split, .layouts = Layouts::kSame, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
