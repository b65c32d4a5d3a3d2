// Random calls, family by family.
#include "tests/property/random_cases.h"

#include <algorithm>
#include <functional>
#include <map>

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
constexpr DType kF = DType::kFloat32;

/// 1, primes, powers of two and their neighbours.
int64_t extent(Random& random, int64_t largest) {
  constexpr int64_t kExtents[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 64, 65, 100, 127};
  const auto end = std::upper_bound(std::begin(kExtents), std::end(kExtents), largest);
  return kExtents[random_between(random, 0, end - std::begin(kExtents) - 1)];
}

/// Mostly small; sometimes one extent that several chunks have to share.
Shape any_shape(Random& random, int least_rank = 0) {
  Integers extents(static_cast<size_t>(random_between(random, least_rank, 4)));
  for (int64_t& e : extents) e = extent(random, 17);
  if (!extents.empty() && random_between(random, 0, 3) == 0) {
    int64_t others = 1;
    for (int64_t& e : extents) others *= e = random_between(random, 1, 3);
    extents[static_cast<size_t>(random_between(random, 0, std::ssize(extents) - 1))] =
        random_between(random, 20000, 60000) / others;
  }
  return Shape(extents);
}

Shape image_shape(Random& random) {
  return {extent(random, 5), extent(random, 65), extent(random, 17), extent(random, 17)};
}

int64_t pick_axis(Random& random, const Shape& shape) {
  return random_between(random, 0, shape.rank() - 1);
}

/// An operand that broadcasts to `out`: axes repeated, leading ones left out.
Shape repeated(Random& random, const Shape& out) {
  Integers extents = out.extents();
  for (int64_t& e : extents)
    if (random_between(random, 0, 2) == 0) e = 1;
  if (random_between(random, 0, 2) == 0)
    extents.erase(extents.begin(),
                  extents.begin() + random_between(random, 0, std::ssize(extents)));
  return Shape(extents);
}

DType pick_integer(Random& random) {
  constexpr DType kIntegers[] = {DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt8};
  return kIntegers[random_between(random, 0, 3)];
}

KernelCase unary(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {}, {random_array(random, kF, shape)}, {{kF, shape}}};
  if (op == "scale") one.attributes = {{"factor", 0.37}};
  if (random_between(random, 0, 1) == 0) one.results[0].alias = 0;
  return one;
}

KernelCase relu_grad(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  return {op,
          {},
          {random_array(random, kF, shape), random_array(random, kF, shape)},
          {{kF, shape, static_cast<int>(random_between(random, -1, 0))}}};
}

KernelCase arithmetic(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const DType dtype = random_between(random, 0, 2) == 0 ? pick_integer(random) : kF;
  Shape a = out, b = repeated(random, out);
  if (out.elements() <= 10000 && random_between(random, 0, 1) == 0) {
    b = out;
    for (int axis = 0; axis < out.rank(); ++axis)
      (random_between(random, 0, 1) == 0 ? a : b)[axis] = 1;
  }
  if (random_between(random, 0, 1) == 0) std::swap(a, b);
  return {op, {}, {random_array(random, dtype, a), random_array(random, dtype, b)}, {{dtype, out}}};
}

KernelCase equal(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const int kind = static_cast<int>(random_between(random, 0, 2));
  const DType a = kind == 0 ? DType::kBool : kind == 1 ? kF : pick_integer(random);
  const DType b = kind == 2 ? pick_integer(random) : a;
  return {op,
          {},
          {random_array(random, a, out), random_array(random, b, repeated(random, out))},
          {{DType::kBool, out}}};
}

KernelCase bias(const std::string& op, Random& random) {
  const Shape x = any_shape(random, 2);
  const int64_t axis = pick_axis(random, x);
  const Shape channels = {x[static_cast<int>(axis)]};
  KernelCase one{op, {{"axis", axis}}, {random_array(random, kF, x)}, {{kF, channels}}};
  if (op == "bias_add") {
    one.inputs.push_back(random_array(random, kF, channels));
    one.results = {{kF, x, static_cast<int>(random_between(random, -1, 0))}};
  }
  return one;
}

KernelCase reduce(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const bool keepdims = random_between(random, 0, 1) == 1;
  Integers axes, kept;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool reduced = random_between(random, 0, 1) == 1;
    if (reduced) axes.push_back(axis);
    if (!reduced || keepdims) kept.push_back(reduced ? 1 : x[axis]);
  }
  return {op,
          {{"axes", axes}, {"keepdims", keepdims}},
          {random_array(random, kF, x)},
          {{kF, Shape(kept)}}};
}

KernelCase broadcast_to(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  return {op,
          {{"shape", out.extents()}},
          {random_array(random, kF, repeated(random, out))},
          {{kF, out}}};
}

KernelCase reshape(const std::string& op, Random& random) {
  const Shape x = image_shape(random), out = {x[0], x.elements(1, 4)};
  return {op, {{"shape", out.extents()}}, {random_array(random, kF, x)}, {{kF, out}}};
}

KernelCase argmax(const std::string& op, Random& random) {
  const Shape x = any_shape(random, 1);
  const int64_t axis = pick_axis(random, x);
  Integers out = x.extents();
  out.erase(out.begin() + axis);
  const DType dtype = random_between(random, 0, 1) == 0 ? kF : pick_integer(random);
  return {op, {{"axis", axis}}, {random_array(random, dtype, x)}, {{DType::kInt64, Shape(out)}}};
}

KernelCase cast(const std::string& op, Random& random) {
  constexpr DType kDTypes[] = {
      kF, DType::kBool, DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt8};
  const Shape shape = any_shape(random);
  const DType from = kDTypes[random_between(random, 0, 5)],
              to = kDTypes[random_between(random, 0, 5)];
  return {op, {{"dtype", to}}, {random_array(random, from, shape)}, {{to, shape}}};
}

KernelCase fill(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  const DType dtype = random_between(random, 0, 1) == 0 ? kF : pick_integer(random);
  return {op, {{"value", 3.5}, {"shape", shape.extents()}, {"dtype", dtype}}, {}, {{dtype, shape}}};
}

KernelCase dropout(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {{"rate", 0.3}}, {random_array(random, kF, shape)}, {{kF, shape}}};
  if (op == "dropout") {
    one.attributes.push_back({"consumer", std::string("net/drop")});
    one.results.push_back({DType::kBool, shape});
  } else {
    one.inputs.push_back(random_array(random, DType::kBool, shape));
  }
  return one;
}

KernelCase loss(const std::string& op, Random& random) {
  const bool wide = random_between(random, 0, 5) == 0;
  const Shape rows = {extent(random, wide ? 3 : 127)};
  const int64_t classes = wide ? 20011 : extent(random, 127);
  const Shape logits = {rows[0], classes};
  KernelCase one{op, {}, {}, {}};
  one.inputs.push_back(random_labels(random, pick_integer(random), rows, classes));
  one.inputs.push_back(random_array(random, kF, logits));
  one.results = {{kF, rows}, {kF, logits}};
  for (float& x : one.inputs[1].as<float>()) x *= 30;
  if (op == "sparse_softmax_cross_entropy_with_logits") return one;
  for (float& x : one.inputs[1].as<float>()) x = (x + 30) / 60;
  one.inputs.push_back(random_array(random, kF, rows));
  one.results = {{kF, logits}};
  return one;
}

KernelCase update(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {{"scale", 0.01}}, {}, {{kF, shape, 1}}};
  one.inputs.push_back(random_array(random, kF, shape));
  one.inputs.push_back(random_array(random, kF, shape));
  if (op == "sgd_update") return one;
  one.inputs.push_back(random_array(random, kF, shape));
  one.results.push_back({kF, shape, 2});
  one.attributes.push_back({"momentum", 0.9});
  one.attributes.push_back({"nesterov", random_between(random, 0, 1) == 1});
  return one;
}

/// Windows along one axis.
struct Windows {
  int64_t size, stride, before, after, dilation;

  /// Such that at least one fits `input`, and none lies in the padding alone.
  static Windows draw(Random& random, int64_t input, bool dilate) {
    const int64_t size = random_between(random, 1, std::min<int64_t>(input, 5));
    const bool room = dilate && size > 1 && (input - 1) / (size - 1) > 1;
    return {size, random_between(random, 1, 3), random_between(random, 0, size - 1),
            random_between(random, 0, size - 1), room ? random_between(random, 1, 2) : 1};
  }
  int64_t count(int64_t input) const {
    return (input + before + after - dilation * (size - 1) - 1) / stride + 1;
  }
};

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

KernelCase matmul(const std::string& op, Random& random) {
  const int64_t m = extent(random, 127), n = extent(random, 127);
  const int64_t k = random_between(random, 0, 5) == 0 ? 4096 : extent(random, 127);
  const bool ta = random_between(random, 0, 1) == 1, tb = random_between(random, 0, 1) == 1;
  Integers a = ta ? Integers{k, m} : Integers{m, k}, b = tb ? Integers{n, k} : Integers{k, n};
  Integers out = {m, n};
  if (k < 100 && random_between(random, 0, 2) == 0) {
    a.insert(a.begin(), {2, 3});
    out.insert(out.begin(), {2, 3});
    if (random_between(random, 0, 1) == 0) b.insert(b.begin(), 3);
  }
  return {op,
          {{"transpose_a", ta}, {"transpose_b", tb}},
          {random_array(random, kF, Shape(a)), random_array(random, kF, Shape(b))},
          {{kF, Shape(out)}}};
}

using Maker = KernelCase (*)(const std::string&, Random&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> all = {
      {"relu", unary},
      {"scale", unary},
      {"relu_grad", relu_grad},
      {"add", arithmetic},
      {"multiply", arithmetic},
      {"equal", equal},
      {"bias_add", bias},
      {"bias_add_grad", bias},
      {"reduce_sum", reduce},
      {"reduce_mean", reduce},
      {"broadcast_to", broadcast_to},
      {"reshape", reshape},
      {"argmax", argmax},
      {"cast", cast},
      {"fill", fill},
      {"dropout", dropout},
      {"dropout_grad", dropout},
      {"sparse_softmax_cross_entropy_with_logits", loss},
      {"sparse_softmax_cross_entropy_with_logits_grad", loss},
      {"sgd_update", update},
      {"momentum_update", update},
      {"max_pool2d", pool},
      {"max_pool2d_grad", pool},
      {"convolution", convolution},
      {"convolution_grad_data", convolution},
      {"convolution_grad_weight", convolution},
      {"matmul", matmul},
  };
  return all;
}

}  // namespace

KernelCase random_case(const std::string& op, Random& random) {
  const auto found = makers().find(op);
  FLOW_CHECK(found != makers().end(), "no random calls of {}: add them to random_cases.cpp", op);
  return found->second(op, random);
}

int64_t terms_of(const KernelCase& one) {
  if (!is_float(one.results[0].dtype) || one.inputs.empty()) return 1;
  const Shape &a = one.inputs[0].shape(), &out = one.results[0].shape;
  if (one.op == "bias_add_grad" || one.op.starts_with("reduce_"))
    return a.elements() / out.elements();
  if (one.op == "max_pool2d_grad") return 25;
  if (one.op.ends_with("_update")) return 3;
  if (one.op == "convolution") return one.inputs[1].shape().elements(1, 4);
  if (one.op == "convolution_grad_data") return one.inputs[1].shape().elements() / out[1];
  if (one.op == "convolution_grad_weight") return a[0] * one.inputs[1].shape().elements(2, 4);
  if (one.op == "matmul") return a.elements(a.rank() - 2, a.rank()) / out[out.rank() - 2];
  return 1;
}

}  // namespace flow::test
