// Learning rates against tables made elsewhere.
#include "runtime/plan/model/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tests/support/golden_arrays.h"

using namespace flow;
using namespace flow::plan;

namespace {

void check_against(const std::string& name, const Schedule& schedule) {
  INFO(name);
  static const std::map<std::string, Array> golden =
      test::golden_arrays("learning_rates/learning_rates");
  const auto expected = golden.at(name).as<double>();
  REQUIRE(expected.size() == 150);
  for (size_t step = 0; step < expected.size(); ++step)
    CHECK(std::abs(learning_rate(schedule, static_cast<int64_t>(step)) - expected[step]) <=
          1e-14 * expected[step]);
}

}  // namespace

TEST_CASE("learning rates are those of the golden tables at every step", "[plan]") {
  schedules::Polynomial polynomial{.base = 0.4, .steps = 60, .end = 1e-4, .power = 2};
  Schedule cosine{schedules::Cosine{.base = 0.4, .steps = 60, .alpha = 0.1}};
  check_against("constant", {schedules::Constant{0.4}});
  check_against("piecewise_constant", {schedules::PiecewiseConstant{{30, 80}, {0.4, 0.2, 0.05}}});
  check_against("piecewise_scaling", {schedules::PiecewiseScaling{0.4, {30, 80}, {0.5, 0.25}}});
  check_against("cosine", cosine);
  check_against("linear_cosine",
                {schedules::LinearCosine{
                    .base = 0.4, .steps = 60, .num_periods = 0.5, .alpha = 0.2, .beta = 0.001}});
  check_against("polynomial", {polynomial});
  polynomial.cycle = true;
  check_against("polynomial_cycle", {polynomial});
  check_against("exponential",
                {schedules::Exponential{{.base = 0.4, .steps = 60, .decay_rate = 0.9}}});
  check_against(
      "exponential_staircase",
      {schedules::Exponential{{.base = 0.4, .steps = 60, .decay_rate = 0.9, .staircase = true}}});
  check_against("inverse_time",
                {schedules::InverseTime{{.base = 0.4, .steps = 60, .decay_rate = 0.9}}});
  check_against("natural_exp",
                {schedules::NaturalExp{{.base = 0.4, .steps = 60, .decay_rate = 0.9}}});
  check_against("step", {schedules::StepDecay{.base = 0.4, .steps = 40, .factor = 0.5}});
  check_against(
      "linear",
      {schedules::Linear{.base = 0.4, .steps = 60, .start_factor = 1.0 / 3, .end_factor = 0.9}});
  Schedule noam{schedules::InverseSqrt{.base = 0.4, .steps = 15}};
  noam.warmup = {Warmup::Type::kLinear, 15, 0};
  check_against("inverse_sqrt", noam);
  cosine.warmup = {Warmup::Type::kConstant, 10, 0.3};
  check_against("warmup_constant_then_cosine", cosine);
  cosine.warmup = {Warmup::Type::kLinear, 10, 0.1};
  check_against("warmup_linear_then_cosine", cosine);
}

TEST_CASE("schedules of cycles are those of the golden tables at every step", "[plan]") {
  schedules::OneCycle cycle{
      .base = 0.4, .steps = 120, .pct_start = 0.3, .div_factor = 25, .final_div_factor = 1e4};
  check_against("one_cycle", {cycle});
  cycle.three_phase = true;
  check_against("one_cycle_three", {cycle});
  cycle.three_phase = false;
  cycle.linear = true;
  check_against("one_cycle_linear", {cycle});
  schedules::CosineRestarts restarts{.base = 0.4, .steps = 20, .restart_factor = 1, .alpha = 0.1};
  check_against("cosine_restarts", {restarts});
  restarts.period_factor = 2;
  check_against("cosine_restarts_longer", {restarts});
  restarts.period_factor = 1;
  restarts.restart_factor = 0.5;
  check_against("cosine_restarts_lower", {restarts});
}

TEST_CASE("a cycle without steps up starts at the base", "[plan]") {
  schedules::OneCycle cycle{
      .base = 0.5, .steps = 10, .pct_start = 0.1, .div_factor = 2, .final_div_factor = 5};
  CHECK(cycle.rate(0) == 0.5);
  CHECK(std::abs(cycle.rate(9) - 0.05) < 1e-15);
  cycle.steps = 1;
  CHECK(std::abs(cycle.rate(0) - 0.05) < 1e-15);
  CHECK(cycle.rate(100) == cycle.rate(0));
}

TEST_CASE("schedules of a list count steps from their own start", "[plan]") {
  Schedule list{schedules::Linear{.base = 0.4, .steps = 20, .start_factor = 0.25, .end_factor = 1}};
  list.stages = {{20, schedules::StepDecay{.base = 0.4, .steps = 30, .factor = 0.5}},
                 {100, schedules::Constant{0.01}}};
  check_against("sequential", list);
  list.stages[1].warmup = {Warmup::Type::kLinear, 4, 0};
  CHECK(learning_rate(list, 100) == 0);
  CHECK(learning_rate(list, 102) == 0.005);
  CHECK(learning_rate(list, 104) == 0.01);
}

TEST_CASE("a warm-up multiplies the base, or the first of several rates", "[plan]") {
  Schedule schedule{schedules::PiecewiseConstant{{2}, {0.5, 0.25}}};
  schedule.warmup = {Warmup::Type::kLinear, 4, 0.5};
  CHECK(learning_rate(schedule, 0) == 0.25);
  CHECK(learning_rate(schedule, 2) == 0.375);
  CHECK(learning_rate(schedule, 4) == 0.25);
  schedule.warmup = {Warmup::Type::kConstant, 4, 0.5};
  CHECK(learning_rate(schedule, 3) == 0.25);
}

TEST_CASE("every schedule has a rate at every step, however late", "[plan]") {
  const auto check = []<typename T>(T schedule) {
    INFO(T::record().type);
    for_each_field<T>([&](const auto& field) {
      using V = typename std::decay_t<decltype(field)>::Value;
      if constexpr (std::is_arithmetic_v<V>)
        schedule.*field.member = static_cast<V>(std::is_same_v<V, double> ? 0.5 : 1);
      if constexpr (std::is_same_v<V, std::vector<double>>) schedule.*field.member = {0.5};
    });
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{1} << 40, INT64_MAX})
      CHECK(std::isfinite(schedule.rate(step)));
  };
  const auto check_all = [&]<typename... T>(std::variant<T...>) { (check(T()), ...); };
  check_all(RateFunction());
}

TEST_CASE("a boundary still has the rate before it, and without boundaries there is one rate",
          "[plan]") {
  const Schedule schedule{schedules::PiecewiseConstant{{10}, {1, 2}}};
  CHECK(learning_rate(schedule, 10) == 1);
  CHECK(learning_rate(schedule, 11) == 2);
  CHECK(learning_rate(schedule, INT64_MAX) == 2);
  CHECK(learning_rate({schedules::PiecewiseConstant{{}, {0.1}}}, 12345) == 0.1);
}
