// When a comparison that passes proves little.
#include "runtime/compare/tolerance.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/compare/compare.h"

namespace flow::compare {
namespace {

Array numbers(const std::vector<float>& values) {
  Array array(DType::kFloat32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), array.as<float>().begin());
  return array;
}

ArrayDifference judged(const std::vector<float>& golden, const std::vector<float>& out,
                       const ToleranceRule& rule = {}) {
  ToleranceRules rules;
  if (!rule.glob.empty()) rules.rules = {rule};
  return judge_arrays("x", numbers(golden).view(), numbers(out).view(), rules,
                      {.steps = {0, 1, 2}});
}

ToleranceRule absolute(double tolerance) { return {.glob = "x", .tolerance = {0, tolerance}}; }

TEST_CASE("constant floats are mistrusted, one number and integers are not", "[compare]") {
  const auto found = judged({2, 2, 2}, {2, 2, 2});
  CHECK(found.verdict == Verdict::kMistrusted);
  CHECK_FALSE(found.failed());
  CHECK(found.doubts == std::vector<std::string>{"golden is constant: every element is 2.0"});
  CHECK(judged({2}, {2}).verdict == Verdict::kEqual);
  CHECK(judged({2, 2, 3}, {2, 2, 3}).verdict == Verdict::kEqual);
  const Array zeros(DType::kInt32, {4});
  CHECK(judge_arrays("x", zeros.view(), zeros.view(), {}).verdict == Verdict::kEqual);
  CHECK(judged({2, 2, 2}, {2, 2, 3}).verdict == Verdict::kDiffers);
}

TEST_CASE("NaN on both sides is mistrusted", "[compare]") {
  const float nan = std::nanf("");
  CHECK(judged({nan, 1, nan}, {nan, 1, nan}).doubts ==
        std::vector<std::string>{"NaN on both sides: 2"});
}

TEST_CASE("a tolerance wider than the spread of golden is mistrusted", "[compare]") {
  CHECK(judged({1, 2, 3}, {1, 2, 3.5}, absolute(0.8)).verdict == Verdict::kWithin);
  CHECK(judged({1, 2, 3}, {1, 2, 3.5}, absolute(0.82)).verdict == Verdict::kMistrusted);
  CHECK(judged({1, 2, 3}, {1, 2, 3}, absolute(0.8)).verdict == Verdict::kEqual);
  CHECK(judged({1, 2, 3}, {1, 2, 3}, absolute(0.82)).verdict == Verdict::kMistrusted);
  CHECK(judged({1e-9f, 2e-9f}, {1e-9f, 2e-9f}).verdict == Verdict::kEqual);  // by the dtype
  CHECK(judged({-1, 2, -3}, {-1, 2, 0}, {.glob = "x", .tolerance = {1, 0}}).verdict ==
        Verdict::kMistrusted);
}

TEST_CASE("steps have tolerances of their own, and some are not judged", "[compare]") {
  ToleranceRule rule = absolute(0.1);
  rule.steps = {{1, 2, {0, 0.6}}};
  CHECK(judged({1, 2, 3}, {1, 2.5, 3}, rule).verdict == Verdict::kWithin);
  CHECK(judged({1, 2, 3}, {1.5, 2, 3}, rule).first_mismatch == std::vector<int64_t>{0});
  rule.last_step = 1;
  const auto found = judged({1, 2, 3}, {1, 2.5, 9}, rule);
  CHECK(found.verdict == Verdict::kWithin);
  CHECK(found.not_judged == 1);
  CHECK(judged({1, 2, 3}, {1, 2.5, 9}).tolerance == default_tolerance(DType::kFloat32));
  rule.last_step = -1;
  CHECK(judged({1, 2, 3}, {7, 8, 9}, rule).verdict == Verdict::kMistrusted);
  const Array one = numbers({1, 2});
  ToleranceRules rules;
  rules.rules = {rule};
  CHECK_THROWS_WITH(judge_arrays("x", one.view(), one.view(), rules),
                    "`x` has no steps, so tolerances by step do not apply");
}

TEST_CASE("a tolerance tighter than the measured spread is refused", "[compare]") {
  ToleranceRule rule = absolute(0.1);
  rule.where = "tolerances.yaml:3:3";
  rule.spread = 0.1;
  CHECK(judged({1, 2, 3}, {1, 2, 3}, rule).verdict == Verdict::kEqual);
  rule.spread = 0.11;
  CHECK_THROWS_WITH(judged({1, 2, 3}, {1, 2, 3}, rule),
                    "tolerances.yaml:3:3: the tolerance of `x` is at most 0.1; equally right runs "
                    "differ by 0.11");
  CHECK_THROWS_AS(judged({1, 2, 3}, {1, 2, 3}, rule), RequestError);
  rule.spread = 0.1;
  rule.steps = {{2, 3, {0, 0.09}}};
  CHECK_THROWS_WITH(judged({1, 2, 3}, {1, 2, 3}, rule),
                    "tolerances.yaml:3:3: the tolerance of `x` in step 2 is at most 0.09; equally "
                    "right runs differ by 0.1");
}

TEST_CASE("tolerances of steps are mistrusted like others", "[compare]") {
  ToleranceRule rule = absolute(0.1);
  rule.steps = {{1, 2, {0, 100}}};
  CHECK(judged({1, 2, 3}, {1, 50, 3}, rule).doubts ==
        std::vector<std::string>{"the tolerance in step 1 (rtol 0, atol 100) is wider than the "
                                 "spread of golden, whose standard deviation is 0.816"});
  rule = absolute(100);  // that no step has
  rule.steps = {{0, 3, {0, 0.1}}};
  CHECK(judged({1, 2, 3}, {1, 2.05f, 3}, rule).verdict == Verdict::kWithin);
}

TEST_CASE("numbers of steps stay exact under tolerances of steps", "[compare]") {
  Array golden(DType::kInt64, {2}), out(DType::kInt64, {2});
  std::ranges::copy(std::vector<int64_t>{0, 1}, golden.as<int64_t>().begin());
  std::ranges::copy(std::vector<int64_t>{0, 2}, out.as<int64_t>().begin());
  ToleranceRules rules;
  rules.rules = {{.glob = "loss/*", .tolerance = {0, 9}, .last_step = 99}};
  const auto verdict = [&](const Array& other, const char* name) {
    return judge_arrays(name, golden.view(), other.view(), rules).verdict;
  };
  CHECK(verdict(golden, "loss/steps") == Verdict::kEqual);
  CHECK(verdict(out, "loss/diff_steps") == Verdict::kDiffers);
  CHECK_THROWS_AS(verdict(out, "loss/x"), RequestError);
}

}  // namespace
}  // namespace flow::compare
