// Random calls: convolutions, pools and resizes.
#include "runtime/base/host_device.h"
#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase pool(const std::string& op, Random& random) {
  const Shape x = image_shape(random);
  Windows h = Windows::draw(random, x[2], false), w = Windows::draw(random, x[3], false);
  if (random_between(random, 0, 2) == 0) h = w = {1, 1, 0, 0, 1};
  if (random_between(random, 0, 2) == 0 && x[2] % 2 == 0 && x[3] % 2 == 0) h = w = {2, 2, 0, 0, 1};
  const Shape y = {x[0], x[1], h.count(x[2]), w.count(x[3])};
  KernelCase one{op,
                 {{"ksize", Integers{h.size, w.size}},
                  {"strides", Integers{h.stride, w.stride}},
                  {"padding", Integers{h.before, h.after, w.before, w.after}}},
                 {random_array(random, kF, x)},
                 {{kF, y}, {DType::kUInt8, y}}};
  if (op == "max_pool2d") return one;
  const Array places = run_kernel({"max_pool2d", one.attributes, one.inputs, one.results},
                                  {cpu::reference_kernels()})
                           .outputs[1];
  one.attributes.push_back({"input_shape", x.extents()});
  one.inputs = {random_array(random, kF, y), places};
  one.results = {{kF, x}};
  return one;
}

KernelCase avg_pool(const std::string& op, Random& random) {
  KernelCase one = pool("max_pool2d", random);
  one.op = op;
  one.results.pop_back();
  if (op == "avg_pool2d") return one;
  const Shape x = one.inputs[0].shape(), y = one.results[0].shape;
  one.attributes.push_back({"input_shape", x.extents()});
  one.inputs = {random_array(random, kF, y)};
  one.results = {{kF, x}};
  return one;
}

std::string one_of(Random& random, const std::vector<std::string>& words) {
  return words[static_cast<size_t>(
      random_between(random, 0, static_cast<int64_t>(words.size()) - 1))];
}

/// A third of them by a scale, and a third of many planes to 2 or 4 times their size.
KernelCase resize(const std::string& op, Random& random) {
  Shape x = image_shape(random);
  Integers size = {extent(random, 23), extent(random, 23)};
  double scale = 0;
  const int64_t kind = random_between(random, 0, 2);
  if (kind == 2) {
    x = {x[0] + 3, x[1] + 3, x[2], x[3]};
    size = {x[2] * 2, x[3] * 2 * random_between(random, 1, 2)};
  }
  if (kind == 1) {
    scale = static_cast<double>(random_between(random, 8, 24)) / 8;
    for (size_t i = 0; i < 2; ++i)
      size[i] = static_cast<int64_t>(static_cast<double>(x[static_cast<int>(i) + 2]) * scale);
  }
  const Shape y = {x[0], x[1], size[0], size[1]};
  const bool forward = op == "resize";
  const std::string mode = one_of(random, {"nearest", "bilinear", "bicubic"});
  const bool nearest = mode == "nearest", cubic = mode == "bicubic" && random_between(random, 0, 1);
  KernelCase one{op,
                 {{"size", size},
                  {"scale", scale},
                  {"mode", mode},
                  {"coordinates", one_of(random, {"half_pixel", "align_corners", "asymmetric"})},
                  {"rounding", nearest ? one_of(random, {"round_prefer_floor", "round_prefer_ceil",
                                                         "floor", "ceil"})
                                       : std::string("round_prefer_floor")},
                  {"cubic_coefficient", cubic ? -0.5 : -0.75},
                  {"exclude_outside", cubic}},
                 {random_array(random, kF, forward ? x : y)},
                 {{kF, forward ? y : x}}};
  if (!forward) one.attributes.push_back({"input_shape", x.extents()});
  return one;
}

/// Pixels that go into one, with the sums of their weights.
int64_t resize_terms(const KernelCase& one) {
  const Shape &from = one.inputs[0].shape(), &to = one.results[0].shape;
  return 32 * ceil_div(from.elements(2, 4), to.elements(2, 4));
}

KernelCase convolution(const std::string& op, Random& random) {
  const int64_t groups = random_between(random, 0, 2) == 0 ? 2 : 1;
  const int64_t channels = extent(random, 17), filters = extent(random, 17);
  const Shape x = {extent(random, 5), groups * channels, extent(random, 17), extent(random, 17)};
  const Windows h = Windows::draw(random, x[2], true), w = Windows::draw(random, x[3], true);
  const Shape weight = {groups * filters, channels, h.size, w.size};
  const Shape y = {x[0], weight[0], h.count(x[2]), w.count(x[3])};
  KernelCase one{op,
                 {{"strides", Integers{h.stride, w.stride}},
                  {"padding", Integers{h.before, h.after, w.before, w.after}},
                  {"dilation", Integers{h.dilation, w.dilation}},
                  {"groups", groups}},
                 {},
                 {}};
  const bool forward = op == "convolution", to_data = op == "convolution_grad_data";
  one.inputs.push_back(random_array(random, kF, to_data ? y : x));
  one.inputs.push_back(random_array(random, kF, forward || to_data ? weight : y));
  one.results = {{kF, forward ? y : to_data ? x : weight}};
  if (to_data) one.attributes.push_back({"input_shape", x.extents()});
  if (!forward && !to_data) one.attributes.push_back({"weight_shape", weight.extents()});
  return one;
}

/// Windows that an element can lie in.
int64_t windows_over(const KernelCase&) { return 25; }

int64_t convolution_terms(const KernelCase& one) {
  const Shape &a = one.inputs[0].shape(), &b = one.inputs[1].shape();
  if (one.op == "convolution") return b.elements(1, 4);
  if (one.op == "convolution_grad_data") return b.elements() / one.results[0].shape[1];
  return a[0] * b.elements(2, 4);
}

}  // namespace

std::span<const CaseMaker> window_cases() {
  static constexpr CaseMaker kCases[] = {
      {"max_pool2d", pool},
      {"max_pool2d_grad", pool, windows_over},
      {"avg_pool2d", avg_pool, windows_over},
      {"avg_pool2d_grad", avg_pool, windows_over},
      {"resize", resize, resize_terms},
      {"resize_grad", resize, resize_terms},
      {"convolution", convolution, convolution_terms},
      {"convolution_grad_data", convolution, convolution_terms},
      {"convolution_grad_weight", convolution, convolution_terms},
  };
  return kCases;
}

}  // namespace flow::test
