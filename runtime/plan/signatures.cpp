// What must hold of a step's operands and attributes, primitive by primitive.
#include "runtime/plan/signatures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/base/check.h"

namespace flow::plan {

void Call::require(bool holds, std::string_view what) const {
  if (!holds) fail_(std::string(what));
}

void Call::arity(size_t inputs, size_t outputs, size_t optional_from) const {
  require(inputs_.size() == inputs && outputs_.size() == outputs,
          "it has another number of operands");
  for (const Tensor* input : inputs_) require(input != nullptr, "an operand is missing");
  for (size_t i = 0; i < outputs; ++i)
    require(outputs_[i] != nullptr || i >= optional_from, "a result is missing");
}

void Call::makes(size_t i, DType dtype, const Shape& shape) const {
  if (!outputs_[i]) return;
  require(
      outputs_[i]->dtype == dtype && outputs_[i]->shape == shape,
      fmt::format("its result is {} {}, where the operands make {} {}", name_of(outputs_[i]->dtype),
                  outputs_[i]->shape.str(), name_of(dtype), shape.str()));
}

void Call::floats(size_t first, size_t last) const {
  for (size_t i = first; i < last; ++i)
    require(in(i).dtype == in(first).dtype &&
                (in(i).dtype == DType::kFloat32 || in(i).dtype == DType::kFloat64),
            "its operands are not of one float dtype");
}

template <typename T>
const T& Call::attribute(std::string_view name) const {
  const Attribute* found = attributes_.find(name);
  require(found && std::holds_alternative<T>(*found),
          fmt::format("attribute `{}` is missing", name));
  return std::get<T>(*found);
}

int64_t Call::integer(std::string_view name, int64_t low, int64_t high) const {
  const auto value = attribute<int64_t>(name);
  require(value >= low && value <= high, fmt::format("`{}` is {}", name, value));
  return value;
}

double Call::number(std::string_view name) const { return attribute<double>(name); }
bool Call::boolean(std::string_view name) const { return attribute<bool>(name); }
DType Call::dtype(std::string_view name) const { return attribute<DType>(name); }
void Call::text(std::string_view name) const { attribute<std::string>(name); }

std::vector<int64_t> Call::integers(std::string_view name, int count, int64_t low,
                                    int64_t high) const {
  const auto& values = attribute<std::vector<int64_t>>(name);
  require(count < 0 || values.size() == static_cast<size_t>(count),
          fmt::format("`{}` has {} numbers", name, values.size()));
  for (const int64_t value : values)
    require(value >= low && value <= high, fmt::format("`{}` holds {}", name, value));
  return values;
}

Shape Call::extents(std::string_view name) const {
  Shape shape(integers(name, -1, 0, std::numeric_limits<int64_t>::max()));
  require(shape.checked_elements().has_value(), fmt::format("`{}` is too large", name));
  return shape;
}

namespace {

constexpr int64_t kLarge = int64_t{1} << 31;  // of an extent, pad or stride

/// NumPy's broadcast of two shapes; fails where they do not fit.
Shape broadcast(const Call& call, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> extents(static_cast<size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1, y = i <= b.rank() ? b[b.rank() - i] : 1;
    call.require(x == y || x == 1 || y == 1, "its operands do not broadcast");
    extents[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::move(extents));
}

void matmul(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  const Shape &a = call.shape(0), &b = call.shape(1);
  call.require(a.rank() >= 2 && b.rank() >= 2, "an operand of rank below 2");
  const bool ta = call.boolean("transpose_a"), tb = call.boolean("transpose_b");
  const int ra = a.rank(), rb = b.rank();
  const int64_t m = a[ra - (ta ? 1 : 2)], k = a[ra - (ta ? 2 : 1)];
  const int64_t k2 = b[rb - (tb ? 1 : 2)], n = b[rb - (tb ? 2 : 1)];
  call.require(k == k2, "its inner extents differ");
  const auto leading = [](const Shape& s) {
    return Shape(std::vector<int64_t>(s.begin(), s.end() - 2));
  };
  std::vector<int64_t> out = broadcast(call, leading(a), leading(b)).extents();
  out.insert(out.end(), {m, n});
  call.makes(0, call.in(0).dtype, Shape(std::move(out)));
}

void bias_add(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  const int64_t axis = call.integer("axis", 0, call.shape(0).rank() - 1);
  call.require(call.shape(1) == Shape{call.shape(0)[static_cast<int>(axis)]},
               "the bias does not fit");
  call.makes(0, call.in(0).dtype, call.shape(0));
}

void bias_add_grad(const Call& call) {
  call.arity(1, 1);
  call.floats(0, 1);
  const int64_t axis = call.integer("axis", 0, call.shape(0).rank() - 1);
  call.makes(0, call.in(0).dtype, Shape{call.shape(0)[static_cast<int>(axis)]});
}

/// Extents after a window has slid over them.
Shape window_shape(const Call& call, const Shape& x, int64_t channels,
                   const std::vector<int64_t>& kernel, const std::vector<int64_t>& dilation) {
  const auto strides = call.integers("strides", 2, 1, kLarge);
  const auto pads = call.integers("padding", 4, 0, kLarge);
  Shape out{x[0], channels, 0, 0};
  for (int i = 0; i < 2; ++i) {
    const auto a = static_cast<size_t>(i);
    const int64_t before = pads[2 * a], after = pads[2 * a + 1];  // top, bottom, left, right
    const int64_t reach = dilation[a] * (kernel[a] - 1) + 1;
    const int64_t room = x[2 + i] + before + after - reach;
    call.require(room >= 0, "its window does not fit");
    out[2 + i] = room / strides[a] + 1;
  }
  return out;
}

/// The result's shape of a convolution of x with the weight.
Shape convolved(const Call& call, const Shape& x, const Shape& weight) {
  call.require(x.rank() == 4 && weight.rank() == 4, "an operand that is not of rank 4");
  const auto dilation = call.integers("dilation", 2, 1, kLarge);
  const int64_t groups = call.integer("groups", 1, kLarge);
  call.require(weight[0] % groups == 0 && weight[1] <= kLarge && x[1] == weight[1] * groups,
               "its channels do not fit");
  call.require(weight[2] >= 1 && weight[3] >= 1 && weight[2] <= kLarge && weight[3] <= kLarge &&
                   x[2] <= kLarge && x[3] <= kLarge,
               "its window is empty");
  return window_shape(call, x, weight[0], {weight[2], weight[3]}, dilation);
}

void convolution(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  call.makes(0, call.in(0).dtype, convolved(call, call.shape(0), call.shape(1)));
}

void convolution_grad_data(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  const Shape x = call.extents("input_shape");
  call.require(call.shape(0) == convolved(call, x, call.shape(1)), "the gradient does not fit");
  call.makes(0, call.in(0).dtype, x);
}

void convolution_grad_weight(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  const Shape weight = call.extents("weight_shape");
  call.require(call.shape(1) == convolved(call, call.shape(0), weight),
               "the gradient does not fit");
  call.makes(0, call.in(0).dtype, weight);
}

struct Pooled {
  Shape shape;
  DType argmax;
};

Pooled pooled(const Call& call, const Shape& x) {
  call.require(x.rank() == 4 && x[2] <= kLarge && x[3] <= kLarge,
               "an operand that is not of rank 4");
  constexpr int64_t kWidest = 1 << 15;
  const auto ksize = call.integers("ksize", 2, 1, kWidest);
  const auto pads = call.integers("padding", 4, 0, kLarge);
  // A window that lies in the padding alone would have no maximum.
  call.require(pads[0] < ksize[0] && pads[1] < ksize[0] && pads[2] < ksize[1] && pads[3] < ksize[1],
               "its padding is as wide as its window");
  const DType argmax = ksize[0] * ksize[1] <= 256 ? DType::kUInt8 : DType::kInt32;
  return {window_shape(call, x, x[1], ksize, {1, 1}), argmax};
}

void max_pool2d(const Call& call) {
  call.arity(1, 2);
  call.floats(0, 1);
  const auto [shape, argmax] = pooled(call, call.shape(0));
  call.makes(0, call.in(0).dtype, shape);
  call.makes(1, argmax, shape);
}

void max_pool2d_grad(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 1);
  const Shape x = call.extents("input_shape");
  const auto [shape, argmax] = pooled(call, x);
  call.require(call.shape(0) == shape && call.shape(1) == shape && call.in(1).dtype == argmax,
               "the gradient does not fit");
  call.makes(0, call.in(0).dtype, x);
}

void reshape(const Call& call) {
  call.arity(1, 1);
  const Shape shape = call.extents("shape");
  call.require(shape.elements() == call.shape(0).elements(), "it changes the number of elements");
  call.makes(0, call.in(0).dtype, shape);
}

void relu(const Call& call) {
  call.arity(1, 1);
  call.floats(0, 1);
  call.makes(0, call.in(0).dtype, call.shape(0));
}

void relu_grad(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  call.require(call.shape(0) == call.shape(1), "its operands differ in shape");
  call.makes(0, call.in(0).dtype, call.shape(0));
}

void check_rate(const Call& call) {
  const double rate = call.number("rate");
  call.require(rate >= 0 && rate < 1, "its rate is not in [0, 1)");
}

void dropout(const Call& call) {
  call.arity(1, 2);
  call.floats(0, 1);
  check_rate(call);
  call.text("consumer");
  call.makes(0, call.in(0).dtype, call.shape(0));
  call.makes(1, DType::kBool, call.shape(0));
}

void dropout_grad(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 1);
  check_rate(call);
  call.require(call.in(1).dtype == DType::kBool && call.shape(0) == call.shape(1),
               "its mask does not fit");
  call.makes(0, call.in(0).dtype, call.shape(0));
}

/// The shape of one value a row of logits.
Shape rows_of(const Call& call, const Tensor& labels, const Tensor& logits) {
  call.require(is_integer(labels.dtype), "its labels are no integers");
  call.require(logits.shape.rank() >= 1, "its logits are a scalar");
  Shape rows(std::vector<int64_t>(logits.shape.begin(), logits.shape.end() - 1));
  call.require(labels.shape == rows, "its labels do not fit the logits");
  return rows;
}

void sparse_cross_entropy(const Call& call) {
  call.arity(2, 2);
  call.floats(1, 2);
  const Shape rows = rows_of(call, call.in(0), call.in(1));
  call.makes(0, call.in(1).dtype, rows);
  call.makes(1, call.in(1).dtype, call.shape(1));
}

void sparse_cross_entropy_grad(const Call& call) {
  call.arity(3, 1);
  call.floats(1, 3);
  const Shape rows = rows_of(call, call.in(0), call.in(1));
  call.require(call.shape(2) == rows, "the gradient does not fit");
  call.makes(0, call.in(1).dtype, call.shape(1));
}

void arithmetic(const Call& call) {
  call.arity(2, 1);
  call.require(call.in(0).dtype == call.in(1).dtype && call.in(0).dtype != DType::kBool,
               "its operands differ in dtype");
  call.makes(0, call.in(0).dtype, broadcast(call, call.shape(0), call.shape(1)));
}

void comparison(const Call& call) {
  call.arity(2, 1);
  const DType a = call.in(0).dtype, b = call.in(1).dtype;
  call.require(a == b || (is_integer(a) && is_integer(b)), "its operands differ in dtype");
  call.makes(0, DType::kBool, broadcast(call, call.shape(0), call.shape(1)));
}

void reduction(const Call& call) {
  call.arity(1, 1);
  call.floats(0, 1);
  const Shape& x = call.shape(0);
  const auto axes = call.integers("axes", -1, 0, x.rank() - 1);
  call.require(std::ranges::is_sorted(axes) && std::ranges::adjacent_find(axes) == axes.end(),
               "its axes are not sorted");
  const bool keepdims = call.boolean("keepdims");
  std::vector<int64_t> out;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!std::ranges::binary_search(axes, axis))
      out.push_back(x[axis]);
    else if (keepdims)
      out.push_back(1);
  }
  call.makes(0, call.in(0).dtype, Shape(std::move(out)));
}

void broadcast_to(const Call& call) {
  call.arity(1, 1);
  call.floats(0, 1);
  const Shape shape = call.extents("shape");
  call.require(broadcast(call, call.shape(0), shape) == shape,
               "it does not broadcast to its shape");
  call.makes(0, call.in(0).dtype, shape);
}

void scale(const Call& call) {
  call.number("factor");
  relu(call);
}

void argmax(const Call& call) {
  call.arity(1, 1);
  call.require(call.in(0).dtype != DType::kBool, "its operand is bool");
  const int64_t axis = call.integer("axis", 0, call.shape(0).rank() - 1);
  call.require(call.shape(0)[static_cast<int>(axis)] > 0, "its axis is empty");
  std::vector<int64_t> out = call.shape(0).extents();
  out.erase(out.begin() + axis);
  call.makes(0, DType::kInt64, Shape(std::move(out)));
}

void cast(const Call& call) {
  call.arity(1, 1);
  call.makes(0, call.dtype("dtype"), call.shape(0));
}

void fill(const Call& call) {
  call.arity(0, 1);
  call.number("value");
  call.makes(0, call.dtype("dtype"), call.extents("shape"));
}

void sgd_update(const Call& call) {
  call.arity(2, 1);
  call.floats(0, 2);
  call.number("scale");
  call.require(call.shape(0) == call.shape(1), "the gradient does not fit the variable");
  call.makes(0, call.in(1).dtype, call.shape(1));
}

void momentum_update(const Call& call) {
  call.arity(3, 2, 2);
  call.floats(0, 3);
  call.number("scale");
  call.number("momentum");
  call.boolean("nesterov");
  call.require(call.shape(0) == call.shape(1) && call.shape(1) == call.shape(2),
               "the gradient does not fit the variable");
  call.makes(0, call.in(1).dtype, call.shape(1));
  call.makes(1, call.in(1).dtype, call.shape(1));
}

constexpr std::array kSignatures = {
    Signature{"matmul", matmul},
    Signature{"bias_add", bias_add, 1},
    Signature{"bias_add_grad", bias_add_grad},
    Signature{"convolution", convolution},
    Signature{"convolution_grad_data", convolution_grad_data},
    Signature{"convolution_grad_weight", convolution_grad_weight},
    Signature{"max_pool2d", max_pool2d},
    Signature{"max_pool2d_grad", max_pool2d_grad},
    Signature{"reshape", reshape},
    Signature{"relu", relu, 0},
    Signature{"relu_grad", relu_grad},
    Signature{"dropout", dropout},
    Signature{"dropout_grad", dropout_grad},
    Signature{"sparse_softmax_cross_entropy_with_logits", sparse_cross_entropy},
    Signature{"sparse_softmax_cross_entropy_with_logits_grad", sparse_cross_entropy_grad},
    Signature{"add", arithmetic},
    Signature{"multiply", arithmetic},
    Signature{"equal", comparison},
    Signature{"reduce_sum", reduction},
    Signature{"reduce_mean", reduction},
    Signature{"broadcast_to", broadcast_to},
    Signature{"scale", scale},
    Signature{"argmax", argmax},
    Signature{"cast", cast},
    Signature{"fill", fill},
    Signature{"sgd_update", sgd_update, 1, 1},
    Signature{"momentum_update", momentum_update, -1, 1},
};

}  // namespace

const Signature* find_signature(std::string_view op) {
  const auto found = std::ranges::find(kSignatures, op, &Signature::op);
  return found == kSignatures.end() ? nullptr : &*found;
}

}  // namespace flow::plan
