// Kernels of tril and triu, which keep one side of a diagonal of each matrix and write zeros to the
// other side.
#include <cstring>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Copies rows as bytes, and keeps the columns on one side of the diagonal. The result may alias
/// the operand.
template <bool kLower>
Kernel keeping(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  const int64_t diagonal = request.step.attributes.get<int64_t>("diagonal");
  const auto element = static_cast<int64_t>(size_of(request.inputs[0].dtype));
  return by_rows(request, x.elements() / columns, columns, [=](const Piece& piece, int64_t row) {
    const int64_t i = row % rows, at = row * columns * element;
    const int64_t begin = kLower ? 0 : std::clamp<int64_t>(i + diagonal, 0, columns);
    const int64_t end = kLower ? std::clamp<int64_t>(i + diagonal + 1, 0, columns) : columns;
    const auto bytes = [element](int64_t n) { return static_cast<size_t>(n * element); };
    const std::byte* from = piece.buffers.inputs[0] + at;
    std::byte* to = piece.buffers.outputs[0] + at;
    if (from != to) std::memcpy(to + begin * element, from + begin * element, bytes(end - begin));
    std::memset(to, 0, bytes(begin));
    std::memset(to + end * element, 0, bytes(columns - end));
  });
}

}  // namespace

std::span<const KernelEntry> tril_triu() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "tril", .prepare = keeping<true>, .any_dtype = true},
      {.op = "triu", .prepare = keeping<false>, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
