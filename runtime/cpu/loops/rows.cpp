// Kernels that work on rows along one axis: one by one where that is the last one, else many at a
// time, or where few lie beside each other, by way of copies.
#include "runtime/cpu/loops/rows.h"

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {
namespace {

constexpr int64_t kTogether = 16;  // rows: a vector's floats, as a cache line's

/// Rows along the axis: x is [outer, n, inner].
struct Rows {
  int64_t outer, n, inner;
};

/// count rows of n, which lie `inner` apart, from x into `rows`.
void bring_together(const float* x, const Rows& shape, int64_t count, float* rows) {
  for (int64_t k = 0; k < shape.n; ++k)
    for (int64_t i = 0; i < count; ++i) rows[i * shape.n + k] = x[k * shape.inner + i];
}

void spread_out(const float* rows, const Rows& shape, int64_t count, float* y) {
  for (int64_t k = 0; k < shape.n; ++k)
    for (int64_t i = 0; i < count; ++i) y[k * shape.inner + i] = rows[i * shape.n + k];
}

Launch launch_adjacent(const Rows& shape, bool two, int threads, RowFunction run) {
  return [=](const Buffers& buffers, const CallState&) {
    const float* a = input<float>(buffers, 0);
    const float* b = two ? input<float>(buffers, 1) : nullptr;
    for_pieces(threads, shape.outer, std::max<int64_t>(1, kPiece / 4 / shape.n),
               [&](int64_t first, int64_t end) {
                 for (int64_t at = first * shape.n; at < end * shape.n; at += shape.n)
                   run(a + at, b ? b + at : nullptr, output<float>(buffers, 0) + at, shape.n);
               });
  };
}

Launch launch_apart(const Rows& shape, bool two, int threads, RowFunction run) {
  return [=](const Buffers& buffers, const CallState&) {
    const float* a = input<float>(buffers, 0);
    const float* b = two ? input<float>(buffers, 1) : nullptr;
    const int64_t pieces = ceil_div(shape.inner, kTogether), copy = kTogether * shape.n;
    parallel_for(threads, shape.outer * pieces, [&](int64_t task, int worker) {
      const int64_t column = task % pieces * kTogether;
      const int64_t count = std::min(kTogether, shape.inner - column);
      const int64_t at = task / pieces * shape.n * shape.inner + column;
      float* rows_a = reinterpret_cast<float*>(buffers.workspace) + worker * 3 * copy;
      float *rows_b = rows_a + copy, *made = rows_b + copy;
      bring_together(a + at, shape, count, rows_a);
      if (b) bring_together(b + at, shape, count, rows_b);
      for (int64_t i = 0; i < count * shape.n; i += shape.n)
        run(rows_a + i, rows_b + i, made + i, shape.n);
      spread_out(made, shape, count, output<float>(buffers, 0) + at);
    });
  };
}

Launch launch_beside(const Rows& shape, bool two, int threads, RowsFunction run) {
  return [=](const Buffers& buffers, const CallState&) {
    const float* a = input<float>(buffers, 0);
    const float* b = two ? input<float>(buffers, 1) : nullptr;
    const int64_t parts = ceil_div(shape.inner, kMostBeside);
    const int64_t piece = std::max<int64_t>(1, kPiece / (shape.n * kMostBeside));
    for_pieces(threads, shape.outer * parts, piece, [&](int64_t first, int64_t end) {
      for (int64_t part = first; part < end; ++part) {
        const int64_t column = part % parts * kMostBeside;
        const int64_t at = part / parts * shape.n * shape.inner + column;
        run(a + at, b ? b + at : nullptr, output<float>(buffers, 0) + at,
            {shape.n, shape.inner, std::min(kMostBeside, shape.inner - column)});
      }
    });
  };
}

}  // namespace

Kernel rows_kernel(const Request& request, int axis, RowFunction run, RowsFunction run_beside) {
  const Shape& x = request.inputs[0].shape;
  const Rows shape{x.elements(0, axis), x[axis], x.elements(axis + 1, x.rank())};
  const bool two = request.inputs.size() > 1;
  if (shape.inner == 1) return {launch_adjacent(shape, two, request.threads, run)};
  if (shape.inner >= kTogether) return {launch_beside(shape, two, request.threads, run_beside)};
  const auto copies = static_cast<size_t>(request.threads * 3 * kTogether * shape.n);
  return {launch_apart(shape, two, request.threads, run), copies * sizeof(float)};
}

}  // namespace flow::cpu
