// The shape rules of convolution and pooling, over [N, C, H, W].
#include <array>

#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

using Integers = std::vector<int64_t>;

void require_images(const Call& call, const Shape& shape) {
  call.require(shape.rank() == 4, "{} has {} dimensions; expected 4 (N, C, H, W)", shape.str(),
               shape.rank());
}

/// Windows of `size` along H and W of images of shape `x`: how many there are of them.
std::array<int64_t, 2> count_windows(const Call& call, const Shape& x,
                                     const std::array<int64_t, 2>& size, const Integers& dilation) {
  const Integers &pads = call.integers("padding"), &strides = call.integers("strides");
  std::array<int64_t, 2> counts{};
  for (size_t i = 0; i < 2; ++i) {
    // Each factor below 2^31, so that nothing overflows.
    const int64_t extent = x[static_cast<int>(i) + 2];
    call.require(extent <= kMostSize && size[i] <= kMostSize, "{} is too large for windows",
                 x.str());
    const int64_t span = dilation[i] * (size[i] - 1) + 1;
    const int64_t padded = extent + pads[2 * i] + pads[2 * i + 1];
    call.require(span <= padded, "window of {} is larger than the padded extent {}", span, padded);
    counts[i] = (padded - span) / strides[i] + 1;
  }
  return counts;
}

/// The shape of the convolution of `x` with `weight`.
Shape convolved(const Call& call, const Shape& x, const Shape& weight) {
  call.require_same_dtypes();
  require_images(call, x);
  require_images(call, weight);
  const int64_t groups = call.attribute<int64_t>("groups");
  call.require(x[1] % groups == 0 && x[1] / groups == weight[1] && weight[0] % groups == 0,
               "weight {} with {} groups does not match {}", weight.str(), groups, x.str());
  const auto counts = count_windows(call, x, {weight[2], weight[3]}, call.integers("dilation"));
  return {x[0], weight[0], counts[0], counts[1]};
}

/// The shape of `x`, pooled.
Shape pooled(const Call& call, const Shape& x) {
  require_images(call, x);
  const Integers &size = call.integers("ksize"), &pads = call.integers("padding");
  for (size_t i = 0; i < pads.size(); ++i)
    call.require(pads[i] < size[i / 2], "padding {} is not smaller than the window", pads[i]);
  call.require(size[0] * size[1] <= kMostSize, "window {} x {} is too large", size[0], size[1]);
  const auto counts = count_windows(call, x, {size[0], size[1]}, {1, 1});
  return {x[0], x[1], counts[0], counts[1]};
}

/// The dtype of places in windows.
DType place_dtype(const Call& call) {
  const Integers& size = call.integers("ksize");
  return size[0] * size[1] <= 256 ? DType::kUInt8 : DType::kInt32;
}

}  // namespace

namespace rules {

void convolution(Call& call) {
  call.result(call.number(), convolved(call, call.shape(0), call.shape(1)));
}

void convolution_grad_data(Call& call) {
  const Shape x(call.integers("input_shape"));
  call.require_shapes(0, 1, convolved(call, x, call.shape(1)));
  call.result(call.number(), x);
}

void convolution_grad_weight(Call& call) {
  const Shape weight(call.integers("weight_shape"));
  call.require_shapes(1, 2, convolved(call, call.shape(0), weight));
  call.result(call.number(), weight);
}

void max_pool2d(Call& call) {
  const Shape y = pooled(call, call.shape(0));
  call.result(call.dtype(0), y);
  call.result(place_dtype(call), y);
}

void avg_pool2d(Call& call) { call.result(call.number(), pooled(call, call.shape(0))); }

void avg_pool2d_grad(Call& call) {
  const Shape x(call.integers("input_shape"));
  call.require_shapes(0, 1, pooled(call, x));
  call.result(call.number(), x);
}

void max_pool2d_grad(Call& call) {
  const Shape x(call.integers("input_shape"));
  const Shape y = pooled(call, x);
  call.require_shapes(0, 2, y);
  call.require(call.dtype(1) == place_dtype(call), "max_pool2d indices are {}; expected {}",
               name_of(call.dtype(1)), name_of(place_dtype(call)));
  call.result(call.dtype(0), x);
}

}  // namespace rules

}  // namespace flow::plan
