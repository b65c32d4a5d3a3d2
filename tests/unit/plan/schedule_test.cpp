// Learning rates against tables made elsewhere.
#include "runtime/plan/model/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "runtime/base/file.h"

using namespace flow;
using namespace flow::plan;

namespace {

/// The float64 values of a golden array; they are the last bytes of its file.
std::vector<double> golden(const std::string& name) {
  const std::string text =
      read_text(fs::path(FLOW_SOURCE_DIR) / "tests/golden/learning_rates" / (name + ".npy"));
  std::vector<double> values(150);
  const size_t bytes = values.size() * sizeof(double);
  REQUIRE(text.size() > bytes);
  std::memcpy(values.data(), text.data() + text.size() - bytes, bytes);
  return values;
}

void check_against(const std::string& name, const Schedule& schedule) {
  INFO(name);
  const std::vector<double> expected = golden(name);
  for (size_t step = 0; step < expected.size(); ++step)
    CHECK(std::abs(learning_rate(schedule, static_cast<int64_t>(step)) - expected[step]) <=
          1e-14 * expected[step]);
}

}  // namespace

TEST_CASE("learning rates are those of the golden tables at every step", "[plan]") {
  const std::map<std::string, double> decay = {
      {"base", 0.4}, {"steps", 60}, {"decay_rate", 0.9}, {"staircase", 0}};
  std::map<std::string, double> staircase = decay;
  staircase["staircase"] = 1;
  std::map<std::string, double> polynomial = {
      {"base", 0.4}, {"steps", 60}, {"end", 1e-4}, {"power", 2}, {"cycle", 0}};
  Schedule cosine{"cosine", {{"base", 0.4}, {"steps", 60}, {"alpha", 0.1}}, {}, {}};
  check_against("constant", {"constant", {{"base", 0.4}}, {}, {}});
  check_against("piecewise_constant", {"piecewise_constant", {}, {30, 80}, {0.4, 0.2, 0.05}});
  check_against("piecewise_scaling", {"piecewise_scaling", {{"base", 0.4}}, {30, 80}, {0.5, 0.25}});
  check_against("cosine", cosine);
  check_against(
      "linear_cosine",
      {"linear_cosine",
       {{"base", 0.4}, {"steps", 60}, {"num_periods", 0.5}, {"alpha", 0.2}, {"beta", 0.001}},
       {},
       {}});
  check_against("polynomial", {"polynomial", polynomial, {}, {}});
  polynomial["cycle"] = 1;
  check_against("polynomial_cycle", {"polynomial", polynomial, {}, {}});
  check_against("exponential", {"exponential", decay, {}, {}});
  check_against("exponential_staircase", {"exponential", staircase, {}, {}});
  check_against("inverse_time", {"inverse_time", decay, {}, {}});
  check_against("natural_exp", {"natural_exp", decay, {}, {}});
  cosine.warmup = {"constant", 10, 0.3};
  check_against("warmup_constant_then_cosine", cosine);
  cosine.warmup = {"linear", 10, 0.1};
  check_against("warmup_linear_then_cosine", cosine);
}

TEST_CASE("a warm-up multiplies the base, or the first of several rates", "[plan]") {
  Schedule schedule{"piecewise_constant", {}, {2}, {0.5, 0.25}};
  schedule.warmup = {"linear", 4, 0.5};
  CHECK(learning_rate(schedule, 0) == 0.25);
  CHECK(learning_rate(schedule, 2) == 0.375);
  CHECK(learning_rate(schedule, 4) == 0.25);
  schedule.warmup = {"constant", 4, 0.5};
  CHECK(learning_rate(schedule, 3) == 0.25);
}

TEST_CASE("every schedule has a rate at every step, however late", "[plan]") {
  for (const ScheduleType& type : schedule_types()) {
    INFO(type.type);
    Schedule schedule{std::string(type.type), {}, {}, {}};
    for (const ScheduleNumber& number : type.numbers)
      schedule.values[std::string(number.name)] = number.whole ? 1 : 0.5;
    if (type.more_rates == 1) schedule.rates = {0.5};
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{1} << 40, INT64_MAX})
      CHECK(std::isfinite(learning_rate(schedule, step)));
  }
}

TEST_CASE("a boundary still has the rate before it, and without boundaries there is one rate",
          "[plan]") {
  const Schedule schedule{"piecewise_constant", {}, {10}, {1, 2}};
  CHECK(learning_rate(schedule, 10) == 1);
  CHECK(learning_rate(schedule, 11) == 2);
  CHECK(learning_rate(schedule, INT64_MAX) == 2);
  CHECK(learning_rate({"piecewise_constant", {}, {}, {0.1}}, 12345) == 0.1);
}
