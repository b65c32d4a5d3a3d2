// Kernels of pad, which surrounds rows with padding, and of pad_grad, which sums the gradients of
// elements that reflection or edge padding copied.
#include <array>
#include <cstring>

#include "ops/pad/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// One axis of the smaller array and of the larger array.
struct PadAxis : PaddedAxis {
  int64_t stride;                // the distance in the smaller array
  std::vector<int64_t> sources;  // indexed by the larger array's place; -1 if it has no source
};

/// Returns the axes in the order in which the larger array stores them, which is also the order of
/// the smaller array. There is at least one axis.
std::vector<PadAxis> pad_axes(const Request& request, const TensorDesc& small,
                              const TensorDesc& large) {
  const Padding padding = padding_of(request, small.shape);
  const std::vector<int64_t> strides = strides_of(small);
  std::vector<PadAxis> axes;
  for (const int axis : memory_order(large)) {
    PadAxis made{padding.axes[axis], strides[static_cast<size_t>(axis)], {}};
    for (int64_t place = 0; place < made.large(); ++place)
      made.sources.push_back(made.source(padding.mode, place));
    axes.push_back(std::move(made));
  }
  if (axes.empty()) axes.push_back({{1, 0, 0}, 1, {0}});
  return axes;
}

/// Returns the offset in the smaller array at which row `row` of the larger array begins, or -1 if
/// that row contains only the constant. Rows are counted over all axes of the larger array except
/// the last.
int64_t source_of_row(const std::vector<PadAxis>& axes, int64_t row) {
  int64_t offset = 0;
  for (size_t i = axes.size() - 1; i-- > 0;) {
    const int64_t place = axes[i].sources[static_cast<size_t>(row % axes[i].large())];
    if (place < 0) return -1;
    offset += place * axes[i].stride;
    row /= axes[i].large();
  }
  return offset;
}

/// Writes one row: the row `x` of the smaller array, with padding before and after it as its last
/// axis requires.
template <typename T>
void pad_row(const PadAxis& axis, const T* x, T value, T* y) {
  const auto fill = [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      const int64_t from = axis.sources[static_cast<size_t>(i)];
      y[i] = from < 0 ? value : x[from];
    }
  };
  fill(0, axis.before);
  std::memcpy(y + axis.before, x, static_cast<size_t>(axis.n) * sizeof(T));
  fill(axis.before + axis.n, axis.large());
}

template <typename T>
Kernel pad_with(const Request& request, T value) {
  auto axes = pad_axes(request, request.inputs[0], request.outputs[0]);
  const int64_t columns = axes.back().large(), n = request.outputs[0].shape.elements();
  return by_rows(request, n / columns, columns,
                 [value, axes = std::move(axes)](const Piece& piece, int64_t row) {
                   const PadAxis& last = axes.back();
                   const int64_t from = source_of_row(axes, row);
                   T* to = output<T>(piece.buffers, 0) + row * last.large();
                   if (from < 0)
                     std::fill_n(to, last.large(), value);
                   else
                     pad_row(last, input<T>(piece.buffers, 0) + from, value, to);
                 });
}

/// Adds to dx a row of dy along the last axis. The copies of an element are added in the order of
/// PaddedAxis::copy.
void add_row(const PadAxis& axis, const float* dy, float* dx) {
  const float* inside = dy + axis.before;
  for (int64_t i = 0; i < axis.n; ++i) dx[i] += inside[i];
  for (int64_t i = 0; i < axis.before; ++i) dx[axis.sources[static_cast<size_t>(i)]] += dy[i];
  for (int64_t i = axis.before + axis.n; i < axis.large(); ++i)
    dx[axis.sources[static_cast<size_t>(i)]] += dy[i];
}

/// Adds to a row of dx the rows of dy that axes [axis, last) map to it. `place` contains the row's
/// place along each axis, and `row` is the number of dy's row computed so far.
void add_rows(PadMode mode, const std::vector<PadAxis>& axes, const int64_t* place, size_t axis,
              int64_t row, const float* dy, float* dx) {
  if (axis + 1 == axes.size()) return add_row(axes[axis], dy + row * axes[axis].large(), dx);
  const int64_t copies = axes[axis].copies(mode, place[axis]);
  for (int64_t i = 0; i < copies; ++i)
    add_rows(mode, axes, place, axis + 1,
             row * axes[axis].large() + axes[axis].copy(mode, place[axis], i), dy, dx);
}

Kernel prepare_pad(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  return visit_dtype(request.inputs[0].dtype,
                     [&]<typename T>(T) { return pad_with(request, convert<T>(value)); });
}

Kernel prepare_pad_grad(const Request& request) {
  auto axes = pad_axes(request, request.outputs[0], request.inputs[0]);
  const PadMode mode = padding_of(request, request.outputs[0].shape).mode;
  const int64_t columns = axes.back().n, large = axes.back().large();
  return by_rows(request, request.outputs[0].shape.elements() / columns, large,
                 [=, axes = std::move(axes)](const Piece& piece, int64_t row) {
                   std::array<int64_t, plan::kMaxRank> place{};
                   int64_t rest = row;
                   for (size_t i = axes.size() - 1; i-- > 0; rest /= axes[i].n)
                     place[i] = rest % axes[i].n;
                   float* dx = output<float>(piece.buffers, 0) + row * columns;
                   std::fill_n(dx, columns, 0.0f);
                   add_rows(mode, axes, place.data(), 0, 0, input<float>(piece.buffers, 0), dx);
                 });
}

}  // namespace

std::span<const KernelEntry> pad() {
  static constexpr KernelEntry kKernels[] = {
      {"pad", prepare_pad, Layouts::kSame},
      {"pad_grad", prepare_pad_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
