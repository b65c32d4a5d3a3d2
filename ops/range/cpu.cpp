// evenly_spaced: numbers at equal distances.
#include "runtime/base/convert.h"
#include "runtime/base/spaced.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

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

std::span<const KernelEntry> range() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "evenly_spaced", .prepare = prepare_evenly_spaced, .float64 = prepare_evenly_spaced},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
