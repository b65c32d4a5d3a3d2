// Random calls: elements moved to other places, taken apart, repeated.
#include <algorithm>
#include <numeric>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

/// A dtype of each size that kernels know.
DType pick_dtype(Random& random) {
  constexpr DType kDTypes[] = {kF, DType::kInt64, DType::kUInt8, DType::kBool};
  return kDTypes[random_between(random, 0, 3)];
}

/// A number of copies: one where the shape is large.
int64_t few(Random& random, const Shape& shape, int64_t most) {
  return shape.elements() > 20000 ? 1 : random_between(random, 1, most);
}

/// Several extents of more than a tile's.
Shape matrix_shape(Random& random) {
  Integers extents(static_cast<size_t>(random_between(random, 2, 4)));
  for (int64_t& e : extents) e = extent(random, extents.size() == 2 ? 127 : 33);
  return Shape(extents);
}

KernelCase transpose(const std::string& op, Random& random) {
  const Shape x = random_between(random, 0, 1) ? any_shape(random) : matrix_shape(random);
  Integers perm(static_cast<size_t>(x.rank())), extents;
  std::iota(perm.begin(), perm.end(), 0);
  std::shuffle(perm.begin(), perm.end(), random);
  for (const int64_t axis : perm) extents.push_back(x[static_cast<int>(axis)]);
  const DType dtype = pick_dtype(random);
  return {op, {{"perm", perm}}, {random_array(random, dtype, x)}, {{dtype, Shape(extents)}}};
}

KernelCase split(const std::string& op, Random& random) {
  const Shape x = any_shape(random, 1);
  const auto axis = static_cast<int>(pick_axis(random, x));
  const DType dtype = pick_dtype(random);
  Integers sizes;
  KernelCase one{op, {}, {random_array(random, dtype, x)}, {}};
  for (int64_t left = x[axis]; left > 0; left -= sizes.back()) {
    sizes.push_back(sizes.size() == 3 ? left : random_between(random, 1, left));
    Shape part = x;
    part[axis] = sizes.back();
    one.results.push_back({dtype, part});
  }
  one.attributes = {{"axis", int64_t{axis}}, {"sizes", sizes}};
  return one;
}

/// A slice of `x` with steps of either sign; some axes of one element are left out.
struct Taken {
  Integers starts, steps, counts, shape;

  Taken(Random& random, const Shape& x) {
    for (const int64_t n : x) {
      const int64_t start = random_between(random, 0, n - 1);
      int64_t step = random_between(random, 0, 2) == 0 ? random_between(random, -3, 3) : 1;
      if (step == 0) step = -1;
      const int64_t room = step > 0 ? (n - 1 - start) / step : start / -step;
      const bool whole = random_between(random, 0, 1) == 0;
      starts.push_back(whole ? 0 : start);
      steps.push_back(whole ? 1 : step);
      counts.push_back(whole ? n : random_between(random, 0, room) + 1);
      if (counts.back() > 1 || random_between(random, 0, 1)) shape.push_back(counts.back());
    }
  }
  std::vector<std::pair<std::string, plan::Attribute>> attributes() const {
    return {{"starts", starts}, {"steps", steps}, {"counts", counts}};
  }
};

KernelCase slice(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const Taken taken(random, x);
  const DType dtype = pick_dtype(random);
  KernelCase one{op, taken.attributes(), {random_array(random, dtype, x)}, {}};
  one.attributes.emplace_back("shape", taken.shape);
  one.results = {{dtype, Shape(taken.shape)}};
  return one;
}

KernelCase slice_grad(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const Taken taken(random, x);
  KernelCase one{op, taken.attributes(), {random_array(random, kF, Shape(taken.shape))}, {{kF, x}}};
  one.attributes.emplace_back("input_shape", x.extents());
  return one;
}

/// A mode that needs nothing of the extents, or one that does, with paddings that it can make.
std::string pick_mode(Random& random, bool constant) {
  const char* const kModes[] = {"edge", "reflect", "constant"};
  return kModes[random_between(random, 0, constant ? 2 : 1)];
}

Integers pick_paddings(Random& random, const Shape& x, const std::string& mode) {
  Integers paddings;
  for (const int64_t n : x) {
    const bool none = random_between(random, 0, 2) == 0;
    const int64_t most = mode == "reflect" ? std::min<int64_t>(n - 1, 4) : 4;
    for (int side = 0; side < 2; ++side)
      paddings.push_back(none ? 0 : random_between(random, 0, most));
  }
  return paddings;
}

Shape padded(const Shape& x, const Integers& paddings) {
  Shape out = x;
  for (int axis = 0; axis < x.rank(); ++axis)
    out[axis] +=
        paddings[2 * static_cast<size_t>(axis)] + paddings[2 * static_cast<size_t>(axis) + 1];
  return out;
}

KernelCase pad(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const std::string mode = pick_mode(random, true);
  const Integers paddings = pick_paddings(random, x, mode);
  const DType dtype = pick_dtype(random);
  return {op,
          {{"paddings", paddings}, {"mode", mode}, {"value", 1.0}},
          {random_array(random, dtype, x)},
          {{dtype, padded(x, paddings)}}};
}

KernelCase pad_grad(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const std::string mode = pick_mode(random, false);
  const Integers paddings = pick_paddings(random, x, mode);
  return {op,
          {{"paddings", paddings}, {"mode", mode}},
          {random_array(random, kF, padded(x, paddings))},
          {{kF, x}}};
}

/// Of at most five copies along each of four axes.
int64_t copies_of(const KernelCase&) { return 625; }

KernelCase tile(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  Integers multiples;
  Shape out = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    multiples.push_back(few(random, out, 3));
    out[axis] *= multiples.back();
  }
  const DType dtype = pick_dtype(random);
  return {op, {{"multiples", multiples}}, {random_array(random, dtype, x)}, {{dtype, out}}};
}

}  // namespace

std::span<const CaseMaker> move_cases() {
  static constexpr CaseMaker kCases[] = {
      {"transpose", transpose},
      {"split", split},
      {"slice", slice},
      {"slice_grad", slice_grad},
      {"pad", pad},
      {"pad_grad", pad_grad, copies_of},
      {"tile", tile},
  };
  return kCases;
}

}  // namespace flow::test
