// fill: a constant. evenly_spaced: numbers at equal distances.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

Kernel prepare_fill(const Request& request) {
  const double value = number(request, "value");
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    return elementwise(request, [element = convert<T>(value)](const Piece& piece) {
      std::fill_n(piece.output<T>(0), piece.size(), element);
    });
  });
}

Kernel prepare_evenly_spaced(const Request& request) {
  const int64_t n = request.outputs[0].shape.elements();
  const EvenlySpaced numbers(number(request, "first"), number(request, "last"), n);
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    return elementwise(request, [=](const Piece& piece) {
      for (int64_t i = piece.first; i < piece.end; ++i)
        output<T>(piece.buffers, 0)[i] = convert<T>(numbers.at(i, n));
    });
  });
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
