// Random calls: elements picked by indices, by rank, or by the side of a diagonal.
#include <algorithm>
#include <cmath>

#include "tests/property/cases/draw.h"
#include "tests/property/example_cases.h"

namespace flow::test {
namespace {

/// An array whose parts along an axis are picked, the indices, and what comes out.
struct Picking {
  Shape params, indices, out;
  int64_t axis;

  explicit Picking(Random& random) : params(any_shape(random, 1)), axis(0) {
    axis = pick_axis(random, params);
    Integers picked(static_cast<size_t>(random_between(random, 0, 2)));
    for (int64_t& e : picked) e = extent(random, 8);
    indices = Shape(picked);
    Integers extents = params.extents();
    extents.erase(extents.begin() + axis);
    extents.insert(extents.begin() + axis, picked.begin(), picked.end());
    out = Shape(extents);
  }
  int64_t extent_of_axis() const { return params[static_cast<int>(axis)]; }
  Array draw(Random& random) const {
    return random_labels(random, pick_integer(random), indices, extent_of_axis());
  }
};

KernelCase gather(const std::string& op, Random& random) {
  const Picking picking(random);
  const DType dtype = random_between(random, 0, 1) ? kF : pick_integer(random);
  return {op,
          {{"axis", picking.axis}},
          {random_array(random, dtype, picking.params), picking.draw(random)},
          {{dtype, picking.out}}};
}

KernelCase gather_grad(const std::string& op, Random& random) {
  const Picking picking(random);
  return {op,
          {{"axis", picking.axis}, {"extent", picking.extent_of_axis()}},
          {picking.draw(random), random_array(random, kF, picking.out)},
          {{kF, picking.params}}};
}

/// A table, and bags of indices, of which some are behind its end.
KernelCase bags(const std::string& op, Random& random) {
  const int64_t rows = extent(random, 40), units = extent(random, 70);
  Shape indices = with_few_rows(any_shape(random, 1), 0, 1);
  int64_t& count = indices[indices.rank() - 1];
  count = std::min<int64_t>(count, 20);
  std::vector<int64_t> out = indices.extents();
  out.back() = units;
  return {op,
          {},
          {random_array(random, kF, {rows, units}),
           random_labels(random, random_between(random, 0, 1) ? DType::kInt64 : DType::kUInt8,
                         indices, rows + 2)},
          {{kF, Shape(out)}}};
}

KernelCase bag_sum(const std::string& op, Random& random) {
  KernelCase one = bags(op, random);
  if (random_between(random, 0, 1))
    one.inputs.push_back(random_array(random, kF, one.inputs[1].shape()));
  return one;
}

KernelCase bag_max(const std::string& op, Random& random) {
  KernelCase one = bags(op, random);
  one.results.push_back({DType::kInt64, one.results[0].shape});
  return one;
}

int64_t size_of_bags(const KernelCase& one) {
  const Shape& indices = one.inputs[1].shape();
  return indices[indices.rank() - 1];
}

int64_t picked_of(const KernelCase& one) { return one.inputs[0].shape().elements(); }

/// Partial sums grow with the root of their number, and are rounded as often.
int64_t terms_of_rows(const KernelCase& one) {
  const int64_t n = picked_of(one);
  return n * std::max<int64_t>(1, n / 64);
}

KernelCase one_hot(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const int64_t depth = extent(random, x.elements() > 1000 ? 5 : 100);
  const DType dtype = random_between(random, 0, 1) ? kF : pick_integer(random);
  Integers out = x.extents();
  out.push_back(depth);
  return {op,
          {{"depth", depth}, {"on_value", 3.0}, {"off_value", 1.0}, {"dtype", dtype}},
          {random_labels(random, pick_integer(random), x, depth)},
          {{dtype, Shape(out)}}};
}

KernelCase triangle(const std::string& op, Random& random) {
  const Shape x = any_shape(random, 2);
  const DType dtype = random_between(random, 0, 1) ? kF : pick_integer(random);
  KernelCase one{op,
                 {{"diagonal", random_between(random, -4, 6)}},
                 {random_array(random, dtype, x)},
                 {{dtype, x}}};
  if (random_between(random, 0, 1)) one.results[0].alias = 0;
  return one;
}

/// Whole numbers, so that there are ties.
KernelCase top_k(const std::string& op, Random& random) {
  Shape x = any_shape(random, 1);
  const int64_t axis = pick_axis(random, x);
  int64_t& n = x[static_cast<int>(axis)];
  n = std::min<int64_t>(n, 600);
  const DType dtype = random_between(random, 0, 2) ? kF : pick_integer(random);
  Array values = random_array(random, dtype, x);
  if (dtype == kF)
    for (float& value : values.as<float>()) value = std::round(value * 20);
  Shape out = x;
  const bool few = random_between(random, 0, 2) > 0;  // many are found in another way
  const int64_t k = random_between(random, 1, few ? std::min<int64_t>(n, 12) : n);
  out[static_cast<int>(axis)] = k;
  return {
      op, {{"axis", axis}, {"k", k}}, {std::move(values)}, {{dtype, out}, {DType::kInt64, out}}};
}

KernelCase top_k_grad(const std::string& op, Random& random) {
  const KernelCase top = top_k("top_k", random);
  const Shape x = top.inputs[0].shape(), y = top.results[0].shape;
  const auto axis = std::get<int64_t>(top.attributes[0].second);
  return {op,
          {{"axis", axis}, {"extent", x[static_cast<int>(axis)]}},
          {random_array(random, kF, y), run_kernel(top, {cpu::reference_kernels()}).outputs[1]},
          {{kF, x}}};
}

}  // namespace

std::span<const CaseMaker> pick_cases() {
  static constexpr CaseMaker kCases[] = {
      {"gather", gather},         {"gather_grad", gather_grad, picked_of},
      {"one_hot", one_hot},       {"tril", triangle},
      {"triu", triangle},         {"top_k", top_k},
      {"top_k_grad", top_k_grad}, {"bag_sum", bag_sum, size_of_bags},
      {"bag_max", bag_max},       {"sparse_gather_grad", example_case, terms_of_rows},
  };
  return kCases;
}

}  // namespace flow::test
