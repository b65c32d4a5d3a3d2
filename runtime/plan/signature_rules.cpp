// The shape rules of primitives, but for those with windows.
#include <algorithm>
#include <optional>

#include "runtime/base/representable.h"
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

using Integers = std::vector<int64_t>;

/// NumPy's broadcasting; nothing where the shapes do not.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  const auto extent = [rank](const Shape& shape, int axis) {
    const int own = axis - (rank - shape.rank());
    return own < 0 ? 1 : shape[own];
  };
  Integers extents;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t from_a = extent(a, axis), from_b = extent(b, axis);
    if (from_a != from_b && from_a != 1 && from_b != 1) return {};
    extents.push_back(std::max(from_a, from_b));
  }
  return Shape(std::move(extents));
}

Shape broadcast_operands(const Call& call) {
  Shape out = call.shape(0);
  for (size_t i = 1; i < call.operands().size(); ++i) {
    const auto both = broadcast(out, call.shape(i));
    call.require(both.has_value(), "{} and {} do not broadcast", out.str(), call.shape(i).str());
    out = *both;
  }
  return out;
}

Shape without_last(const Shape& shape, int count) { return shape.first(shape.rank() - count); }

/// What is left of x without the attribute's axes, or with them as 1.
Shape reduced(const Call& call, const Shape& x) {
  const Integers& axes = call.integers("axes");
  call.require(axes.empty() || axes.back() < x.rank(), "axes {} are out of range for {}",
               Shape(axes).str(), x.str());
  Integers extents;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool gone = std::ranges::find(axes, int64_t{axis}) != axes.end();
    if (!gone || call.attribute<bool>("keepdims")) extents.push_back(gone ? 1 : x[axis]);
  }
  return Shape(std::move(extents));
}

}  // namespace

namespace rules {

void arithmetic(Call& call) {
  call.require_same_dtypes();
  call.result(call.dtype(0), broadcast_operands(call));
}

void equality(Call& call) {
  const DType a = call.dtype(0), b = call.dtype(1);
  const bool stored = a == DType::kFloat16 || a == DType::kBFloat16;
  call.require(!stored && (a == b || (is_integer(a) && is_integer(b))), "cannot compare {} and {}",
               name_of(a), name_of(b));
  call.result(DType::kBool, broadcast_operands(call));
}

void order(Call& call) {
  call.require(call.dtype(0) != DType::kBool, "cannot order bools");
  equality(call);
}

void where(Call& call) {
  call.require(call.dtype(1) == call.dtype(2), "`x` is {} and `y` is {}; expected the same dtype",
               name_of(call.dtype(1)), name_of(call.dtype(2)));
  call.result(call.dtype(1), broadcast_operands(call));
}

void spread(Call& call) { call.result(call.number(), broadcast_operands(call)); }

void rectifier_grad(Call& call) {
  call.require_same_dtypes();
  elementwise(call);
}

void elementwise(Call& call) {
  call.require_same_shapes(call.operands().size());
  call.result(call.dtype(0), call.shape(0));
}

void clip(Call& call) {
  const double min = call.attribute<double>("min"), max = call.attribute<double>("max");
  call.require(min <= max, "min {} is larger than max {}", min, max);
  elementwise(call);
}

void softmax(Call& call) {
  call.axis();  // which is one of x
  elementwise(call);
}

void dropout(Call& call) {
  call.result(call.dtype(0), call.shape(0));
  call.result(DType::kBool, call.shape(0));
}

void cast(Call& call) { call.result(call.attribute<DType>("dtype"), call.shape(0)); }

void fill(Call& call) {
  const DType dtype = call.attribute<DType>("dtype");
  const double value = call.attribute<double>("value");
  call.require(is_representable(value, dtype), "{} is not a valid {}", value, name_of(dtype));
  call.result(dtype, Shape(call.integers("shape")));
}

void reshape(Call& call) {
  const Shape shape(call.integers("shape"));
  call.require(shape.elements() == call.shape(0).elements(), "cannot reshape {} to {}",
               call.shape(0).str(), shape.str());
  call.result(call.dtype(0), shape);
}

void broadcast_to(Call& call) {
  const Shape shape(call.integers("shape"));
  call.require(broadcast(call.shape(0), shape) == shape, "{} does not broadcast to {}",
               call.shape(0).str(), shape.str());
  call.result(call.dtype(0), shape);
}

void argmax(Call& call) {
  Integers extents = call.shape(0).extents();
  extents.erase(extents.begin() + call.axis());
  call.result(DType::kInt64, Shape(std::move(extents)));
}

void reduce(Call& call) { call.result(call.dtype(0), reduced(call, call.shape(0))); }

void reduce_grad(Call& call) {
  const Shape& x = call.shape(1);
  const Shape results = reduced(call, x);
  for (size_t i = 0; i < call.operands().size(); ++i)
    call.require(i == 1 || call.shape(i) == results, "operand of {}; expected {}",
                 call.shape(i).str(), results.str());
  call.result(call.number(), x);
}

void bias_add(Call& call) {
  const Shape& x = call.shape(0);
  const int axis = call.axis();
  call.require(call.shape(1) == Shape{x[axis]}, "bias of {} does not fit axis {} of {}",
               call.shape(1).str(), axis, x.str());
  call.result(call.dtype(0), x);
}

void bias_add_grad(Call& call) { call.result(call.number(), {call.shape(0)[call.axis()]}); }

void matmul(Call& call) {
  call.require_same_dtypes();
  const Shape &a = call.shape(0), &b = call.shape(1);
  call.require(a.rank() >= 2 && b.rank() >= 2, "{} and {} are not both matrices", a.str(), b.str());
  const bool ta = call.attribute<bool>("transpose_a"), tb = call.attribute<bool>("transpose_b");
  const int64_t rows = a[a.rank() - (ta ? 1 : 2)], summed_a = a[a.rank() - (ta ? 2 : 1)];
  const int64_t summed_b = b[b.rank() - (tb ? 1 : 2)], columns = b[b.rank() - (tb ? 2 : 1)];
  call.require(summed_a == summed_b, "cannot multiply {} and {}", a.str(), b.str());
  const auto batch = broadcast(without_last(a, 2), without_last(b, 2));
  call.require(batch.has_value(), "the leading dimensions of {} and {} do not broadcast", a.str(),
               b.str());
  Integers extents = batch->extents();
  extents.push_back(rows);
  extents.push_back(columns);
  call.result(call.number(), Shape(std::move(extents)));
}

void loss(Call& call) {
  const Shape &labels = call.shape(0), &logits = call.shape(1);
  call.require(logits.rank() > 0 && without_last(logits, 1) == labels,
               "labels {} do not match logits {}", labels.str(), logits.str());
  call.result(call.number(), labels);
  call.result(call.number(), logits);
}

void loss_grad(Call& call) {
  const Shape &labels = call.shape(0), &prob = call.shape(1), &dy = call.shape(2);
  call.require(prob.rank() > 0 && without_last(prob, 1) == labels && dy == labels,
               "shapes do not match: labels {}, prob {}, dy {}", labels.str(), prob.str(),
               dy.str());
  call.result(call.number(), prob);
}

void dense_loss(Call& call) {
  const Shape &labels = call.shape(0), &logits = call.shape(1);
  call.require(logits.rank() > 0 && labels == logits, "labels {} do not match logits {}",
               labels.str(), logits.str());
  call.result(call.number(), without_last(logits, 1));
  call.result(call.number(), logits);
}

void dense_loss_grad(Call& call) {
  const Shape &labels = call.shape(0), &prob = call.shape(1), &dy = call.shape(2);
  call.require(prob.rank() > 0 && labels == prob && dy == without_last(prob, 1),
               "shapes do not match: labels {}, prob {}, dy {}", labels.str(), prob.str(),
               dy.str());
  call.result(call.number(), prob);
}

}  // namespace rules

}  // namespace flow::plan
