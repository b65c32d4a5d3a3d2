// The shape rules of primitives that move elements, pick them or put them together.
#include <algorithm>

#include "runtime/base/representable.h"
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

using Integers = std::vector<int64_t>;

/// An attribute with a number for each axis, or `each` of them.
const Integers& per_axis(const Call& call, std::string_view name, int rank, size_t each = 1) {
  const Integers& list = call.integers(name);
  call.require(list.size() == each * static_cast<size_t>(rank), "{} values in `{}` for {} axes",
               list.size(), name, rank);
  return list;
}

void require_number(const Call& call, std::string_view attribute, DType dtype) {
  const double value = call.attribute<double>(attribute);
  call.require(is_representable(value, dtype), "{} is not a valid {}", value, name_of(dtype));
}

/// The sum or product of extents, where it can be counted.
int64_t counted(const Call& call, std::initializer_list<int64_t> factors) {
  const auto product = Shape(factors).checked_elements();
  call.require(product.has_value(), "an extent is too large to count");
  return *product;
}
int64_t summed(const Call& call, int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 59;
  call.require(a <= kMost && b <= kMost, "an extent is too large to count");
  return a + b;
}

Shape with_extent(const Shape& shape, int axis, int64_t extent) {
  Shape changed = shape;
  changed[axis] = extent;
  return changed;
}

/// Extents of `outside` but for axes [axis, axis + dropped), with `inside` in their place.
Shape replaced(const Shape& outside, int axis, int dropped, const Shape& inside) {
  Integers extents = outside.extents();
  const auto at = extents.erase(extents.begin() + axis, extents.begin() + axis + dropped);
  extents.insert(at, inside.begin(), inside.end());
  return Shape(std::move(extents));
}

/// What starts, steps and counts take lies inside `x`, and fills `taken`.
void require_inside(const Call& call, const Shape& x, const Shape& taken) {
  const Integers& starts = per_axis(call, "starts", x.rank());
  const Integers& steps = per_axis(call, "steps", x.rank());
  const Integers& counts = per_axis(call, "counts", x.rank());
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t n = x[axis], first = starts[i], step = steps[i];
    call.require(0 <= first && first < n && -n <= step && step <= n && counts[i] <= n &&
                     (step != 0 || counts[i] == 1),
                 "start {} with step {} is out of range on axis {} of {}", first, step, axis,
                 x.str());
    // Both factors are at most n: of an axis of 2^31 elements and more the product may overflow.
    const double last =
        static_cast<double>(first) + static_cast<double>(counts[i] - 1) * static_cast<double>(step);
    call.require(0 <= last && last < static_cast<double>(n) && n <= int64_t{1} << 52,
                 "{} elements from {} with step {} exceed axis {} of {}", counts[i], first, step,
                 axis, x.str());
  }
  call.require(Shape(counts).elements() == taken.elements(), "slice of {} does not fill {}",
               Shape(counts).str(), taken.str());
}

/// The shape with `paddings` added, or with `sign` -1 taken away.
Shape padded(const Call& call, int sign) {
  const Shape& x = call.shape(0);
  const Integers& paddings = per_axis(call, "paddings", x.rank(), 2);
  Shape out = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = 2 * static_cast<size_t>(axis);
    const int64_t added = paddings[at] + paddings[at + 1];
    out[axis] = summed(call, x[axis], sign * added);
    call.require(out[axis] >= 1, "padding of {} leaves no elements", added);
  }
  return out;
}

/// Each mode can make up what lies around `inside`.
void require_mode(const Call& call, const Shape& inside, bool constant) {
  const auto& mode = call.attribute<std::string>("mode");
  call.require(mode == "reflect" || mode == "edge" || (constant && mode == "constant"),
               "unknown padding mode `{}` for {}", mode, inside.str());
  if (mode != "reflect") return;
  const Integers& paddings = call.integers("paddings");
  for (size_t i = 0; i < paddings.size(); ++i)
    call.require(paddings[i] < inside[static_cast<int>(i / 2)], "cannot reflect {} elements of {}",
                 paddings[i], inside.str());
}

}  // namespace

namespace rules {

void transpose(Call& call) {
  const Shape& x = call.shape(0);
  const Integers& perm = per_axis(call, "perm", x.rank());
  Integers sorted = perm, extents;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < perm.size(); ++i)
    call.require(sorted[i] == static_cast<int64_t>(i), "{} is not a permutation of the axes",
                 Shape(perm).str());
  for (const int64_t axis : perm) extents.push_back(x[static_cast<int>(axis)]);
  call.result(call.dtype(0), Shape(std::move(extents)));
}

void concat(Call& call) {
  call.require_same_dtypes();
  const int axis = call.axis();
  Shape out = call.shape(0);
  for (size_t i = 1; i < call.operands().size(); ++i) {
    const Shape& other = call.shape(i);
    call.require(
        other.rank() == out.rank() && with_extent(other, axis, 1) == with_extent(out, axis, 1),
        "cannot concatenate {} and {}", call.shape(0).str(), other.str());
    out[axis] = summed(call, out[axis], other[axis]);
  }
  call.result(call.dtype(0), std::move(out));
}

void stack(Call& call) {
  call.require_same_dtypes();
  const Shape& x = call.shape(0);
  call.require_same_shapes(call.operands().size());
  const int64_t axis = call.attribute<int64_t>("axis");
  call.require(axis <= x.rank(), "new axis {} is out of range for {}", axis, x.str());
  call.result(call.dtype(0), replaced(x, static_cast<int>(axis), 0,
                                      Shape{static_cast<int64_t>(call.operands().size())}));
}

void split(Call& call) {
  const int axis = call.axis();
  const Shape& x = call.shape(0);
  int64_t left = x[axis];
  for (const int64_t size : call.integers("sizes")) {
    call.require(size <= left, "parts {} of axis {} of {}", Shape(call.integers("sizes")).str(),
                 axis, x.str());
    left -= size;
    call.result(call.dtype(0), with_extent(x, axis, size));
  }
  call.require(left == 0, "parts {} of axis {} of {}", Shape(call.integers("sizes")).str(), axis,
               x.str());
}

void slice(Call& call) {
  const Shape shape(call.integers("shape"));
  require_inside(call, call.shape(0), shape);
  call.result(call.dtype(0), shape);
}

void slice_grad(Call& call) {
  const Shape dx(call.integers("input_shape"));
  require_inside(call, dx, call.shape(0));
  call.result(call.number(), dx);
}

void pad(Call& call) {
  require_number(call, "value", call.dtype(0));
  Shape out = padded(call, 1);
  require_mode(call, call.shape(0), true);
  call.result(call.dtype(0), std::move(out));
}

void pad_grad(Call& call) {
  Shape dx = padded(call, -1);
  require_mode(call, dx, false);
  call.result(call.number(), std::move(dx));
}

void tile(Call& call) {
  Shape out = call.shape(0);
  const Integers& multiples = per_axis(call, "multiples", out.rank());
  for (int axis = 0; axis < out.rank(); ++axis)
    out[axis] = counted(call, {out[axis], multiples[static_cast<size_t>(axis)]});
  call.result(call.dtype(0), std::move(out));
}

void triangle(Call& call) {
  call.require(call.shape(0).rank() >= 2, "{} is not a matrix", call.shape(0).str());
  call.result(call.dtype(0), call.shape(0));
}

void gather(Call& call) {
  const int axis = call.axis();
  call.result(call.dtype(0), replaced(call.shape(0), axis, 1, call.shape(1)));
}

void gather_grad(Call& call) {
  const Shape &indices = call.shape(0), &dy = call.shape(1);
  const int64_t axis = call.attribute<int64_t>("axis");
  call.require(axis + indices.rank() <= dy.rank(), "indices {} at axis {} of {}", indices.str(),
               axis, dy.str());
  const auto first = static_cast<int>(axis);
  for (int i = 0; i < indices.rank(); ++i)
    call.require(dy[first + i] == indices[i], "indices {} at axis {} of {}", indices.str(), axis,
                 dy.str());
  call.result(call.number(),
              replaced(dy, first, indices.rank(), Shape{call.attribute<int64_t>("extent")}));
}

void one_hot(Call& call) {
  const DType dtype = call.attribute<DType>("dtype");
  require_number(call, "on_value", dtype);
  require_number(call, "off_value", dtype);
  const Shape& x = call.shape(0);
  call.result(dtype, replaced(x, x.rank(), 0, Shape{call.attribute<int64_t>("depth")}));
}

void top_k(Call& call) {
  const int axis = call.axis();
  const int64_t k = call.attribute<int64_t>("k");
  call.require(k <= call.shape(0)[axis], "k is {}, larger than axis {} of {}", k, axis,
               call.shape(0).str());
  const Shape out = with_extent(call.shape(0), axis, k);
  call.result(call.dtype(0), out);
  call.result(DType::kInt64, out);
}

void top_k_grad(Call& call) {
  const int axis = call.axis();
  call.require(call.dtype(1) == DType::kInt64 && call.shape(1) == call.shape(0),
               "indices {} {} do not match values {}", name_of(call.dtype(1)), call.shape(1).str(),
               call.shape(0).str());
  const int64_t extent = call.attribute<int64_t>("extent");
  call.require(call.shape(0)[axis] <= extent, "k is {}, larger than extent {}", call.shape(0)[axis],
               extent);
  call.result(call.number(), with_extent(call.shape(0), axis, extent));
}

}  // namespace rules

}  // namespace flow::plan
