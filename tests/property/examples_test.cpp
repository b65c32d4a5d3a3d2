// The ops' own examples: on the fast kernels and on the reference, and their gradients against
// central differences.
#include <catch2/catch.hpp>

#include <cmath>

#include "ops/core/spec.h"
#include "tests/property/example_cases.h"
#include "tests/support/example.h"

namespace flow::test {
namespace {

/// What the job returns, in order.
std::vector<std::string> returned(const plan::Job& job) {
  const plan::ReturnValue& value = job.returns->value;
  if (value.items.empty()) return {job[value.tensor].name};
  std::vector<std::string> names;
  for (const plan::ReturnValue& item : value.items) names.push_back(job[item.tensor].name);
  return names;
}

/// The same for every run.
Arrays inputs_of(std::string_view example, const plan::Job& job) {
  Random random(5);
  return inputs_of_example(example, job, random);
}

/// Calls check(example) for every example of every op.
template <typename Check>
void for_examples(Check check) {
  for (const ops::OpSpec* op : ops::all_specs()) {
    INFO(op->name);
    for (std::string_view example : op->examples) {
      INFO(example);
      check(example);
    }
  }
}

/// Sums of the examples' few numbers of at most 1, in float32: a dozen roundings.
void require_near(const Array& got, const Array& expected) {
  for (int64_t i = 0; i < expected.shape().elements(); ++i) {
    const double a = number_at(got, i), b = number_at(expected, i);
    const bool near = is_float(got.dtype()) ? std::abs(a - b) <= 2e-6 * std::abs(b) + 2e-5 : a == b;
    if (!near) FAIL(a << " instead of " << b << " at element " << i);
  }
}

/// The sum of out * cotangent, which the gradients are of.
double summed(const plan::Job& job, const Arrays& values) {
  const std::string out = returned(job).front();
  const Arrays results = run(job, values, {out});
  double sum = 0;
  for (int64_t i = 0; i < results.at(out).shape().elements(); ++i)
    sum += number_at(results.at(out), i) * number_at(values.at("in_cotangent"), i);
  return sum;
}

/// Elements of an operand that are moved: all of a small one, else some spread over it.
constexpr int64_t kMoved = 24;

/// `gradient` of the input `name` against central differences. Everything is float64: the
/// differences are off by h^2 and by rounding over h, both about 1e-10; away from kinks, which
/// random numbers are.
void require_gradient(const plan::Job& job, Arrays values, const std::string& name,
                      const Array& gradient) {
  constexpr double kStep = 1e-5;
  const int64_t n = gradient.shape().elements();
  for (int64_t i = 0; i < n; i += std::max<int64_t>(1, n / kMoved)) {
    double& moved = values.at(name).as<double>()[static_cast<size_t>(i)];
    const double at = moved;
    moved = at + kStep;
    const double above = summed(job, values);
    moved = at - kStep;
    const double below = summed(job, values);
    moved = at;
    const double expected = (above - below) / (2 * kStep), got = number_at(gradient, i);
    if (std::abs(got - expected) > 1e-7 * (1 + std::abs(expected)))
      FAIL("gradient of " << name << "[" << i << "] is " << got << ", differences " << expected);
  }
}

}  // namespace

TEST_CASE("every example runs alike on fast kernels and on the reference", "[property]") {
  for_examples([](std::string_view example) {
    const plan::Job job = has_gradient(example, false) ? gradient_job_of_example(example, false)
                                                       : job_of_example(example, false);
    const Arrays values = inputs_of(example, job);
    const std::vector<std::string> names = returned(job);
    const Arrays fast = run(job, values, names, {1, cpu::fast_kernels()});
    const Arrays reference = run(job, values, names, {1, cpu::reference_kernels()});
    for (const std::string& name : names) {
      INFO(name);
      require_near(fast.at(name), reference.at(name));
    }
  });
}

TEST_CASE("every gradient agrees with central differences", "[property]") {
  for_examples([](std::string_view example) {
    if (!has_gradient(example, true)) return;
    const plan::Job job = gradient_job_of_example(example, true);
    const Arrays values = inputs_of(example, job);
    const std::vector<std::string> names = returned(job);
    const Arrays results = run(job, values, names);
    // The results of the call, then a gradient for each float64 input.
    size_t next = returned(job_of_example(example, true)).size();
    for (const plan::Input& input : job.inputs) {
      const plan::Tensor& operand = job[input.tensor];
      if (operand.dtype != DType::kFloat64 || operand.name == "in_cotangent") continue;
      REQUIRE(next < names.size());
      require_gradient(job, values, operand.name, results.at(names[next++]));
    }
    CHECK(next == names.size());
  });
}

}  // namespace flow::test
