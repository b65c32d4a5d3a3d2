// Reference: pad and its gradient.
#include "ops/core/reference_loops.h"
#include "runtime/base/element_types.h"
#include "runtime/base/index_maps.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// The element of `x` that element i of it with `paddings` around shows, or -1.
struct PadSource {
  PadSource(const Request& request, Shape x_shape, Shape y_shape)
      : x(std::move(x_shape)),
        y(std::move(y_shape)),
        paddings(integers(request, "paddings")),
        mode(pad_mode(request.step.attributes.get<std::string>("mode"))) {}
  int64_t operator()(int64_t i) const {
    AxisPlaces places = places_of(y, i);
    for (int axis = 0; axis < x.rank(); ++axis) {
      int64_t& place = places[static_cast<size_t>(axis)];
      const size_t pair = 2 * static_cast<size_t>(axis);
      place = PaddedAxis{x[axis], paddings[pair], paddings[pair + 1]}.source(mode, place);
      if (place < 0) return -1;
    }
    return index_at(x, places);
  }

  Shape x, y;
  std::vector<int64_t> paddings;
  PadMode mode;
};

Kernel prepare_pad(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  const PadSource source(request, request.inputs[0].shape, request.outputs[0].shape);
  Kernel kernel;
  visit_dtype(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [source, value, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                             const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t from = source(i);
        output<T>(buffers, 0)[i] = from < 0 ? convert<T>(value) : input<T>(buffers, 0)[from];
      }
    };
  });
  return kernel;
}

Kernel prepare_pad_grad(const Request& request) {
  return scattering(request, PadSource(request, request.outputs[0].shape, request.inputs[0].shape));
}

}  // namespace

std::span<const KernelEntry> pad() {
  static constexpr KernelEntry kKernels[] = {
      {"pad", prepare_pad},
      {"pad_grad", prepare_pad_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
