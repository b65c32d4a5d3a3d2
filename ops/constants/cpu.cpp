// fill: a constant. evenly_spaced: numbers at equal distances.
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

template <typename T>
Kernel fill_with(const Request& request, T value) {
  Kernel kernel;
  kernel.launch = [value, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    T* out = output<T>(buffers, 0);
    for_pieces(threads, n, kPiece,
               [&](int64_t first, int64_t end) { std::fill(out + first, out + end, value); });
  };
  return kernel;
}

Kernel prepare_fill(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  const DType dtype = request.outputs[0].dtype;
  return visit_dtype(dtype, [&]<typename T>(T) { return fill_with(request, convert<T>(value)); });
}

Kernel prepare_evenly_spaced(const Request& request) {
  const int64_t n = request.outputs[0].shape.elements();
  const EvenlySpaced numbers(number(request, "first"), number(request, "last"), n);
  Kernel kernel;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
        for (int64_t i = first; i < end; ++i)
          output<T>(buffers, 0)[i] = convert<T>(numbers.at(i, n));
      });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> constants() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "fill", .prepare = prepare_fill, .layouts = Layouts::kSame, .float64 = prepare_fill},
      {.op = "evenly_spaced", .prepare = prepare_evenly_spaced, .float64 = prepare_evenly_spaced},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
