// Kernels of unfold, which turns windows over images into columns, and of fold, which sums columns
// into images. Sums are computed in double, one place after another.
#include "runtime/base/index_maps.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Writes the elements at one place of all windows over a plane.
template <typename T>
void unfold_place(const UnfoldedImages& of, const T* plane, int64_t place, T* y) {
  const int64_t u = place / of.columns.size, v = place % of.columns.size;
  for (int64_t i = 0; i < of.rows.windows; ++i, y += of.columns.windows) {
    const int64_t row = of.rows.at(i, u);
    const bool inside = 0 <= row && row < of.rows.extent;
    for (int64_t j = 0; j < of.columns.windows; ++j) {
      const int64_t column = of.columns.at(j, v);
      y[j] = inside && 0 <= column && column < of.columns.extent
                 ? plane[row * of.columns.extent + column]
                 : T(0);
    }
  }
}

Kernel prepare_unfold(const Request& request) {
  const UnfoldedImages of = unfolded_images(request.step.attributes, request.inputs[0].shape);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [of, threads = request.threads](const Buffers& buffers, const CallState&) {
      for_pieces(threads, of.planes * of.places(), std::max<int64_t>(1, kPiece / of.windows()),
                 [&](int64_t first, int64_t end) {
                   for (int64_t k = first; k < end; ++k)
                     unfold_place(of, input<T>(buffers, 0) + k / of.places() * of.pixels(),
                                  k % of.places(), output<T>(buffers, 0) + k * of.windows());
                 });
    };
  });
  return kernel;
}

Kernel prepare_fold(const Request& request) {
  const UnfoldedImages of = unfolded_images(request.step.attributes, request.outputs[0].shape);
  const int64_t piece = std::max<int64_t>(1, kPiece / of.places());
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [of, piece, threads = request.threads](const Buffers& buffers,
                                                           const CallState&) {
      for_pieces(threads, of.planes * of.pixels(), piece, [&](int64_t first, int64_t end) {
        for (int64_t i = first; i < end; ++i)
          output<T>(buffers, 0)[i] = static_cast<T>(of.folded(input<T>(buffers, 0), i));
      });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> unfold() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "unfold", .prepare = prepare_unfold, .float64 = prepare_unfold},
      {.op = "fold", .prepare = prepare_fold, .float64 = prepare_fold},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
