// tril, triu: one side of a diagonal of each matrix, zeros on the other.
#include <cstring>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Rows of bytes: row i keeps [begin(i), end(i)) of its columns. In place where it may be.
Kernel keeping(const Request& request, bool lower) {
  const Shape& x = request.inputs[0].shape;
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  const int64_t diagonal = request.step.attributes.get<int64_t>("diagonal");
  const auto element = static_cast<int64_t>(size_of(request.inputs[0].dtype));
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, all = x.elements() / columns](
                      const Buffers& buffers, const CallState&) {
    const auto keep_row = [&](int64_t row) {
      const int64_t i = row % rows, at = row * columns * element;
      const int64_t begin = lower ? 0 : std::clamp<int64_t>(i + diagonal, 0, columns);
      const int64_t end = lower ? std::clamp<int64_t>(i + diagonal + 1, 0, columns) : columns;
      const auto bytes = [element](int64_t n) { return static_cast<size_t>(n * element); };
      std::byte* to = buffers.outputs[0] + at;
      if (buffers.inputs[0] != buffers.outputs[0])
        std::memcpy(to + begin * element, buffers.inputs[0] + at + begin * element,
                    bytes(end - begin));
      std::memset(to, 0, bytes(begin));
      std::memset(to + end * element, 0, bytes(columns - end));
    };
    for_pieces(threads, all, std::max<int64_t>(1, kPiece / columns),
               [&](int64_t first, int64_t last) {
                 for (int64_t row = first; row < last; ++row) keep_row(row);
               });
  };
  return kernel;
}

Kernel prepare_tril(const Request& request) { return keeping(request, true); }
Kernel prepare_triu(const Request& request) { return keeping(request, false); }

}  // namespace

std::span<const KernelEntry> tril_triu() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "tril", .prepare = prepare_tril, .any_dtype = true},
      {.op = "triu", .prepare = prepare_triu, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
