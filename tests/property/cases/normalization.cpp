// Random calls: batch, layer and group normalization.
#include <cmath>

#include "tests/property/cases/draw.h"
#include "tests/property/example_cases.h"

namespace flow::test {
namespace {

/// Away from 0, where a small difference in a variance makes a large one in the result.
constexpr double kEpsilon = 0.05;

Array variances(Random& random, const Shape& shape) {
  Array array = random_array(random, kF, shape);
  for (float& v : array.as<float>()) v = std::abs(v);
  return array;
}

/// Activations as convolutions make them, or of any rank.
Shape activations(Random& random) {
  return random_between(random, 0, 1) == 0 ? image_shape(random) : any_shape(random, 1);
}

/// x, or dy and x; then vectors along an axis.
KernelCase batch_norm(const std::string& op, Random& random) {
  const Shape drawn = activations(random);
  const int64_t axis =
      drawn.rank() > 1 && random_between(random, 0, 1) == 0 ? 1 : pick_axis(random, drawn);
  const Shape x = with_few_rows(drawn, axis, axis + 1);
  const Shape channels = {x[static_cast<int>(axis)]};
  KernelCase one{
      op, {{"axis", axis}, {"epsilon", kEpsilon}}, {random_array(random, kF, x)}, {{kF, x}}};
  const auto vector = [&] { one.inputs.push_back(random_array(random, kF, channels)); };
  const bool gradient = op.starts_with("batch_norm_grad");
  if (gradient) one.inputs.push_back(random_array(random, kF, x));
  vector();  // gamma
  vector();  // beta
  if (gradient) one.attributes.push_back({"rectified", random_between(random, 0, 1) == 1});
  if (op == "batch_norm") {
    one.results.push_back({kF, channels});
    one.results.push_back({kF, channels});
    return one;
  }
  vector();  // mean
  one.inputs.push_back(variances(random, channels));
  if (op == "batch_norm_grad_affine") {
    one.results = {{kF, channels}, {kF, channels}};
    return one;
  }
  if (op == "batch_norm_grad") {
    vector();
    vector();
    for (size_t i = 6; i < 8; ++i)
      for (float& sum : one.inputs[i].as<float>()) sum *= 100;
  }
  one.results[0].alias = static_cast<int>(random_between(random, -1, 0));
  return one;
}

KernelCase layer_normalize(const std::string& op, Random& random) {
  const Shape drawn = any_shape(random, 1);
  const int64_t axis = pick_axis(random, drawn);
  const Shape x = with_few_rows(drawn, 0, axis);
  const Shape rows(Integers(x.begin(), x.begin() + axis));
  const Shape features(Integers(x.begin() + axis, x.end()));
  const bool gradient = op == "layer_normalize_grad";
  KernelCase one{op,
                 {{"axis", axis}, {"epsilon", kEpsilon}},
                 {random_array(random, kF, x)},
                 {{kF, x}, {kF, gradient ? features : rows}, {kF, gradient ? features : rows}}};
  one.inputs.push_back(random_array(random, kF, gradient ? x : features));
  one.inputs.push_back(random_array(random, kF, features));
  if (!gradient) return one;
  one.inputs.push_back(random_array(random, kF, rows));
  one.inputs.push_back(variances(random, rows));
  return one;
}

/// [N, C, ...], often of few channels so large that several chunks have to share one.
Shape grouped(Random& random) {
  if (random_between(random, 0, 2) == 0)
    return {extent(random, 2), random_between(random, 1, 6), random_between(random, 3000, 9000)};
  Shape x = activations(random);
  while (x.rank() < 2) x = activations(random);
  return with_few_rows(x, 0, 2);
}

KernelCase group_normalize(const std::string& op, Random& random) {
  const Shape x = grouped(random);
  Integers divisors;
  for (int64_t d = 1; d <= x[1]; ++d)
    if (x[1] % d == 0) divisors.push_back(d);
  const int64_t groups = divisors[static_cast<size_t>(
      random_between(random, 0, static_cast<int64_t>(divisors.size()) - 1))];
  const Shape channels = {x[1]}, rows = {x[0], groups};
  const bool gradient = op == "group_normalize_grad";
  KernelCase one{op,
                 {{"epsilon", kEpsilon}, {"groups", groups}},
                 {random_array(random, kF, x)},
                 {{kF, x}, {kF, gradient ? channels : rows}, {kF, gradient ? channels : rows}}};
  one.inputs.push_back(random_array(random, kF, gradient ? x : channels));
  one.inputs.push_back(random_array(random, kF, channels));
  if (!gradient) return one;
  one.inputs.push_back(random_array(random, kF, rows));
  one.inputs.push_back(variances(random, rows));
  return one;
}

KernelCase move_statistics(const std::string& op, Random& random) {
  const Shape channels = {extent(random, 127)};
  KernelCase one{
      op, {{"momentum", 0.9}, {"unbias", 1.25}}, {}, {{kF, channels, 2}, {kF, channels, 3}}};
  for (int i = 0; i < 4; ++i) one.inputs.push_back(random_array(random, kF, channels));
  return one;
}

/// Elements of a sum; times what dividing by a small deviation makes of an error.
int64_t normalized(const KernelCase& one) {
  int64_t terms = 1;
  for (const Array& array : one.inputs) terms = std::max(terms, array.shape().elements());
  return 64 * terms;
}

}  // namespace

std::span<const CaseMaker> normalization_cases() {
  static constexpr CaseMaker kCases[] = {
      {"batch_norm", batch_norm, normalized},
      {"batch_norm_predict", batch_norm, normalized},
      {"batch_norm_grad", batch_norm, normalized},
      {"batch_norm_grad_affine", batch_norm, normalized},
      {"layer_normalize", layer_normalize, normalized},
      {"layer_normalize_grad", layer_normalize, normalized},
      {"group_normalize", group_normalize, normalized},
      {"group_normalize_grad", group_normalize, normalized},
      {"rms_normalize", example_case, normalized},
      {"rms_normalize_grad", example_case, normalized},
      {"move_statistics", move_statistics},
  };
  return kCases;
}

}  // namespace flow::test
