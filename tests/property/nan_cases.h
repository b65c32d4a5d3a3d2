// Kernels and jobs that are given a NaN, for the CPU's kernels and for CUDA's.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/base/element_types.h"
#include "tests/property/kernel_case.h"
#include "tests/support/run_job.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {

/// Numbers in (0, 1), where every function is defined, NaN at the places where vectors start, end
/// and leave a rest.
inline Array numbers_with_nan(Random& random) {
  constexpr size_t kPlaces[] = {0, 15, 16, 40, 66};
  Array x = random_array(random, DType::kFloat32, {67});
  for (float& value : x.as<float>()) value = 0.05f + 0.9f * std::abs(value);
  for (const size_t place : kPlaces) x.as<float>()[place] = kNan;
  return x;
}

inline KernelCase nan_case(std::string op, std::vector<Array> inputs) {
  std::string approximate = "none";
  if (op.starts_with("gelu_tanh")) approximate = "tanh";
  if (op.starts_with("gelu_")) op = op.ends_with("_grad") ? "gelu_grad" : "gelu";
  const Shape shape = inputs.front().shape();
  return {std::move(op),
          {{"alpha", 0.5},
           {"beta", 0.5},
           {"lambd", 0.5},
           {"threshold", 0.0},
           {"value", 0.0},
           {"min", -2.0},
           {"max", 2.0},
           {"approximate", approximate}},
          std::move(inputs),
          {{DType::kFloat32, shape}}};
}

/// Every function of one number, and of two with the NaN on either side.
inline std::vector<KernelCase> function_cases() {
  Random random(3);
  std::vector<KernelCase> cases;
  const auto add_pair = [&](const char* op) {
    const Array x = numbers_with_nan(random), half = array_of<float>({}, {0.5f});
    cases.push_back(nan_case(op, {x, half}));
    cases.push_back(nan_case(op, {half, x}));
    cases.back().results[0].shape = x.shape();
  };
  const auto add_one = [&](std::string op) {
    Array x = numbers_with_nan(random);
    const ops::OpSpec* spec = ops::find_spec(op);
    if (spec && spec->domain == ops::Domain::kAboveOne)
      for (float& value : x.as<float>()) value += 1.0f;
    cases.push_back(nan_case(std::move(op), {x}));
  };
#define FLOW_UNARY_NUMBER_FUNCTOR(op, functor) add_one(#op);
#define FLOW_UNARY_FUNCTOR(op, functor) FLOW_UNARY_NUMBER_FUNCTOR(op, functor)
#include "ops/unary/unary.def"
#define FLOW_PAIR_FUNCTOR(op, functor) add_pair(#op);
#include "ops/binary/binary.def"
  return cases;
}

/// The gradient of every function, dy or the other operand having the NaNs.
inline std::vector<KernelCase> gradient_cases() {
  Random random(4);
  std::vector<KernelCase> cases;
  const auto add = [&](const char* op) {
    const Array nans = numbers_with_nan(random),
                finite = random_array(random, DType::kFloat32, {67});
    cases.push_back(nan_case(op, {nans, finite}));
    cases.push_back(nan_case(op, {finite, nans}));
  };
#define FLOW_UNARY_FUNCTOR(op, functor) add(#op "_grad");
#include "ops/unary/unary.def"
  return cases;
}

inline bool is_nan_at(const Array& array, int64_t i) { return std::isnan(number_at(array, i)); }

inline bool has_nan(const Array& array) {
  for (int64_t i = 0; i < array.shape().elements(); ++i)
    if (is_nan_at(array, i)) return true;
  return false;
}

/// NaN at the same places.
inline void require_same_nans(const Array& found, const Array& expected) {
  for (int64_t i = 0; i < expected.shape().elements(); ++i)
    if (is_nan_at(found, i) != is_nan_at(expected, i))
      FAIL(number_at(found, i) << " instead of " << number_at(expected, i) << " at element " << i);
}

/// NaN where an operand is, and nowhere else.
inline void require_nan_passes(const KernelCase& one, const Array& found) {
  const Array& operand = one.inputs[one.inputs[0].shape().rank() == 0 ? 1 : 0];
  require_same_nans(found, operand);
}

/// A train job on the mean of a net's result; the net's layers rectify what products,
/// convolutions and batch normalization make.
struct NanJob {
  plan::Job job;
  Arrays values;                    // one NaN, in the first row of x
  std::vector<std::string> wanted;  // the result, then the variables after the update
};

inline NanJob nan_job(const std::string& shape, const std::string& graph,
                      const std::string& precision) {
  const std::string text = "flow: 1\njobs:\n  j:\n    type: train\n    precision: " + precision +
                           "\n    inputs:\n      x: {shape: " + shape +
                           ", dtype: float32}\n    graph:\n" + graph +
                           "      loss: {op: reduce_mean, in: y}\n"
                           "    optimizer: {type: sgd, learning_rate: 0.5, minimize: loss}\n"
                           "    returns: {type: Numpy, value: y}\n";
  NanJob made{plan_of(text).jobs.front(), {}, {}};
  made.wanted = {made.job[made.job.returns->value.tensor].name};
  made.values = random_values(made.job);
  Array& x = made.values.at("x");
  visit_float(x.dtype(), [&]<typename T>(T) { x.as<T>()[5] = static_cast<T>(kNan); });
  for (const plan::Variable& variable : made.job.variables)
    made.wanted.push_back(made.job[variable.tensor].name);
  return made;
}

inline std::vector<NanJob> nan_jobs(const std::string& activation, const std::string& precision) {
  const std::string act = "activation: " + activation;
  std::vector<NanJob> jobs;
  const auto add = [&](const std::string& shape, const std::string& graph) {
    jobs.push_back(nan_job(shape, graph, precision));
  };
  add("[37, 33]", "      h: {op: dense, units: 17, " + act +
                      ", in: x}\n      k: {op: dense, units: 8, " + act +
                      ", use_bias: false}\n      y: {op: dense, units: 3}\n");
  add("[5, 2, 8, 7]", "      a: {op: conv2d, filters: 4, kernel_size: 3, " + act +
                          ", in: x}\n      b: {op: conv2d, filters: 3, kernel_size: 2, " + act +
                          ", use_bias: false}\n      c: {op: max_pool2d, ksize: 2}\n      y: {op: "
                          "flatten}\n");
  add("[6, 3, 5, 4]",
      "      a: {op: conv2d, filters: 4, kernel_size: 3, use_bias: false, in: x}\n      b: {op: "
      "batch_normalization}\n      c: {op: " +
          activation + "}\n      d: {op: avg_pool2d, ksize: 2}\n      y: {op: flatten}\n");
  return jobs;
}

/// Runs it with `options` and with the reference: both have NaN at the same places, and the result
/// and a variable have some.
inline void require_nan_reaches_result(const NanJob& one, const RunJob& options) {
  const Arrays found = run(one.job, one.values, one.wanted, options);
  const Arrays expected = run(one.job, one.values, one.wanted, {1, cpu::reference_kernels()});
  for (const std::string& name : one.wanted) {
    INFO(name);
    require_same_nans(found.at(name), expected.at(name));
  }
  CHECK(has_nan(found.at(one.wanted.front())));
  CHECK(std::any_of(one.wanted.begin() + 1, one.wanted.end(),
                    [&](const std::string& variable) { return has_nan(found.at(variable)); }));
}

}  // namespace flow::test
