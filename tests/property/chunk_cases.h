// Calls of so many rows that kernels cut them into several chunks.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/property/kernel_case.h"
#include "tests/property/tolerance.h"

namespace flow::test {

/// Rows that drift: chunks have means that differ more than the elements of one do.
inline KernelCase drifting_batch_norm() {
  constexpr DType f = DType::kFloat32;
  Random random(11);
  KernelCase one{"batch_norm",
                 {{"axis", int64_t{1}}, {"epsilon", 1e-3}},
                 {random_array(random, f, {4096, 8}), random_array(random, f, {8}),
                  random_array(random, f, {8})},
                 {{f, {4096, 8}}, {f, {8}}, {f, {8}}}};
  const auto x = one.inputs[0].as<float>();
  for (size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i / 8) / 512;
  return one;
}

/// dy is positive, so that no chunk's part of dbeta cancels.
inline KernelCase many_rows_of_layer_norm() {
  constexpr DType f = DType::kFloat32;
  Random random(12);
  KernelCase one{"layer_normalize_grad",
                 {{"axis", int64_t{1}}, {"epsilon", 1e-3}},
                 {random_array(random, f, {3000, 16}), random_array(random, f, {3000, 16}),
                  random_array(random, f, {16}), random_array(random, f, {3000}),
                  random_array(random, f, {3000})},
                 {{f, {3000, 16}}, {f, {16}}, {f, {16}}}};
  for (const size_t positive : {0, 1, 4})
    for (float& value : one.inputs[positive].as<float>()) value = 0.5f + 0.5f * std::abs(value);
  for (float& mean : one.inputs[3].as<float>()) mean *= 0.1f;
  return one;
}

/// The last piece of rows is shorter than the others.
inline KernelCase many_rows_of_gather_grad() {
  constexpr DType f = DType::kFloat32;
  Random random(14);
  return {"gather_grad",
          {{"axis", int64_t{0}}, {"extent", int64_t{1003}}},
          {random_labels(random, DType::kInt32, {500}, 1003), random_array(random, f, {500, 64})},
          {{f, {1003, 64}}}};
}

/// Several chunks for each of several results.
inline KernelCase many_rows_of_sum() {
  constexpr DType f = DType::kFloat32;
  Random random(15);
  return {"reduce_sum",
          {{"axes", std::vector<int64_t>{1}}, {"keepdims", false}},
          {random_array(random, f, {2, 700, 3})},
          {{f, {2, 3}}}};
}

/// Roots of squares as large as epsilon.
inline KernelCase lamb_of_epsilon(double epsilon) {
  constexpr DType f = DType::kFloat32;
  const Shape shape{1000};
  Random random(13);
  KernelCase one{"lamb_update",
                 {{"beta1", 0.9},
                  {"beta2", 0.999},
                  {"epsilon", epsilon},
                  {"weight_decay", 0.01},
                  {"scale", 0.01},
                  {"rate_scale", 1.0}},
                 {},
                 {{f, shape, 1}, {f, shape, 2}, {f, shape, 3}}};
  for (int i = 0; i < 4; ++i) one.inputs.push_back(random_array(random, f, shape));
  for (float& square : one.inputs[3].as<float>()) square = 1e-4f + 1e-3f * std::abs(square);
  return one;
}

/// Every gradient is its mean, whose square is the mean of squares: the variance is 0, and rounding
/// makes half of the differences negative, by more than epsilon.
inline KernelCase canceling_rmsprop() {
  constexpr DType f = DType::kFloat32;
  const Shape shape{1000};
  Random random(14);
  KernelCase one{"centered_rmsprop_update",
                 {{"decay_rate", 0.9}, {"epsilon", 1e-10}, {"scale", 1.0}, {"rate_scale", 1.0}},
                 {},
                 {{f, shape, 1}, {f, shape, 2}, {f, shape, 3}}};
  const Array g = random_array(random, f, shape);
  one.inputs = {g, random_array(random, f, shape), g, g};
  for (float& square : one.inputs[2].as<float>()) square *= square;
  return one;
}

/// What the reference makes, within the op's tolerance.
inline void require_near_reference(const KernelCase& one, const KernelRun& found) {
  INFO(one.str());
  const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
  for (size_t i = 0; i < one.results.size(); ++i)
    require_near(one, found.outputs[i], expected.outputs[i]);
}

/// Finite, and no step longer than the least root allows.
inline void require_bounded_steps(const KernelCase& one, const KernelRun& run,
                                  double learning_rate) {
  for (int64_t i = 0; i < one.inputs[0].shape().elements(); ++i) {
    const double moved = number_at(run.outputs[0], i) - number_at(one.inputs[1], i);
    const double most = learning_rate * std::abs(number_at(one.inputs[0], i)) / 1e-5;
    if (!(std::abs(moved) <= 1.01 * most + 1e-6)) FAIL(moved << " at element " << i);
  }
}

}  // namespace flow::test
