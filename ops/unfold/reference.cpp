// Reference: windows over images as columns, and sums of columns as images.
#include <algorithm>
#include <vector>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

using Integers = std::vector<int64_t>;

/// Calls meet(element of the images, element of the columns) for each pair that is one number.
template <typename Meet>
void for_pairs(const plan::Attributes& attributes, const Shape& images, Meet meet) {
  const auto& size = attributes.get<Integers>("kernel_size");
  const auto& stride = attributes.get<Integers>("strides");
  const auto& dilation = attributes.get<Integers>("dilation_rate");
  const auto& pads = attributes.get<Integers>("padding");
  const int64_t height = images[2], width = images[3];
  const auto count = [&](int64_t extent, size_t i) {
    return (extent + pads[2 * i] + pads[2 * i + 1] - dilation[i] * (size[i] - 1) - 1) / stride[i] +
           1;
  };
  const int64_t rows = count(height, 0), columns = count(width, 1);
  for (int64_t plane = 0; plane < images[0] * images[1]; ++plane)
    for (int64_t u = 0; u < size[0]; ++u)
      for (int64_t v = 0; v < size[1]; ++v)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            const int64_t h = i * stride[0] + u * dilation[0] - pads[0];
            const int64_t w = j * stride[1] + v * dilation[1] - pads[2];
            if (h < 0 || h >= height || w < 0 || w >= width) continue;
            const int64_t place = (plane * size[0] + u) * size[1] + v;
            meet((plane * height + h) * width + w, (place * rows + i) * columns + j);
          }
}

Kernel prepare_unfold(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [attributes = request.step.attributes, images = request.inputs[0].shape,
                     n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                              const CallState&) {
      T* y = output<T>(buffers, 0);
      std::fill_n(y, n, T{0});
      for_pairs(attributes, images,
                [&](int64_t pixel, int64_t at) { y[at] = input<T>(buffers, 0)[pixel]; });
    };
  });
  return kernel;
}

Kernel prepare_fold(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [attributes = request.step.attributes, images = request.outputs[0].shape](
                        const Buffers& buffers, const CallState&) {
      std::vector<double> sums(static_cast<size_t>(images.elements()));
      for_pairs(attributes, images, [&](int64_t pixel, int64_t at) {
        sums[static_cast<size_t>(pixel)] += double_at<T>(buffers, 0, at);
      });
      std::ranges::transform(sums, output<T>(buffers, 0),
                             [](double sum) { return static_cast<T>(sum); });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> unfold() {
  static constexpr KernelEntry kKernels[] = {{"unfold", prepare_unfold}, {"fold", prepare_fold}};
  return kKernels;
}

}  // namespace flow::cpu::reference
