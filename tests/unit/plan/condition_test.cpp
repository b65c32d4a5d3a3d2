// Conditions on statistics: what holds, and what is refused where.
#include "runtime/plan/model/condition.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>
#include <string>

using namespace flow::plan;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// mean, std, min, max, zeros, not_finite, norm, gradient_norm
constexpr StatisticValues kValues = {0.5, 2, -3, 1e4, 0.25, 1, 12, 0.5};
constexpr StatisticValues kNothingFinite = {kNaN, kNaN, kNaN, kNaN, kNaN, 7, kNaN, 3};

bool holds(const std::string& text, const StatisticValues& values = kValues) {
  ConditionError error;
  const auto condition = parse_condition(text, error);
  INFO(text << ": " << error.message);
  REQUIRE(condition);
  return condition->holds(values);
}

std::string error_of(const std::string& text) {
  ConditionError error;
  REQUIRE(!parse_condition(text, error));
  return fmt::format("{}..{}: {}{}{}", error.begin, error.end, error.message,
                     error.hint.empty() ? "" : "; ", error.hint);
}

}  // namespace

TEST_CASE("A condition compares statistics with numbers and with each other", "[plan]") {
  for (const char* text : {"max > 1e3", "max >= 1e4", "min < -2.5", "mean == .5", "mean != 0",
                           "not_finite <= 1", "1e3 < max", "mean < std", "-4 < min < mean < max",
                           "zeros == 0.25", "norm > 10", "gradient_norm < norm"})
    CHECK(holds(text));
  for (const char* text :
       {"max > 1e4", "max < 1e4", "min < -3", "mean != 0.5", "-4 < min < -3", "std < mean"})
    CHECK_FALSE(holds(text));
}

TEST_CASE("`not` binds closest, then `and`, then `or`", "[plan]") {
  CHECK(holds("max > 0 or max < 0 and max < 0"));
  CHECK_FALSE(holds("(max > 0 or max < 0) and max < 0"));
  CHECK(holds("not max < 0 and max > 0"));
  CHECK_FALSE(holds("not (max < 0 or max > 0)"));
  CHECK(holds("not not max > 0"));
  CHECK(holds("max<0 or(max>0)and not(min>0)"));
}

TEST_CASE("Nothing is less or greater than a NaN", "[plan]") {
  CHECK_FALSE(holds("max > 0 or max <= 0 or max == max", kNothingFinite));
  CHECK(holds("max != 0", kNothingFinite));
  CHECK(holds("not max < 1e3", kNothingFinite));
  CHECK(holds("not_finite > 6", kNothingFinite));
}

TEST_CASE("An invalid condition is reported at its place", "[plan]") {
  CHECK(error_of("") == "0..0: the condition ends too early; expected a statistic or a number");
  CHECK(error_of("max") == "0..3: `max` is a number; expected a comparison; write `max > 0`");
  CHECK(error_of("max > 1 and 7") ==
        "12..13: `7` is a number; expected a comparison; write such as `max > 1e3`");
  CHECK(error_of("min < 0 and maxx > 3") ==
        "12..16: unknown statistic `maxx`; did you mean `max`?");
  CHECK(error_of("NaN > 3") == "0..3: unknown statistic `NaN`; did you mean `not_finite`?");
  CHECK(error_of("variance > 3") ==
        "0..8: unknown statistic `variance`; available statistics: mean, std, min, max, zeros, "
        "not_finite, norm, gradient_norm");
  CHECK(error_of("max = 3") == "4..5: unexpected `=`; write `==`");
  CHECK(error_of("max > 3 && min < 0") == "8..10: unexpected `&&`; write `and`");
  CHECK(error_of("!(max > 3)") ==
        "0..1: unexpected `!`; expected a statistic or a number; write `not`");
  CHECK(error_of("max > 10k") == "6..9: invalid number `10k`; write such as 1e-3");
  CHECK(error_of("max > 1e999") == "6..11: `1e999` does not fit a float64");
  CHECK(error_of("(max > 3") == "0..1: unclosed parenthesis");
  CHECK(error_of("max > 3)") == "7..8: unexpected `)`; expected `and`, `or` or the end");
  CHECK(error_of("max ≥ 3") ==
        "4..7: unexpected `≥`; compare by `<`, `<=`, `>`, `>=`, `==` or `!=`");
  CHECK(error_of("2 < 3").starts_with("0..5: two numbers are compared"));
  CHECK(error_of("max > and").starts_with("6..9: unexpected `and`"));
}

TEST_CASE("Depth and length of a condition are bounded or free of recursion", "[plan]") {
  std::string nots, ands = "max > 0";
  for (int i = 0; i < 100'000; ++i) nots += "not ";
  for (int i = 0; i < 10'000; ++i) ands += " and max > 0";
  CHECK(holds(nots + "max > 0"));
  CHECK(holds(ands));
  const std::string open(17, '('), close(17, ')');
  CHECK(error_of(open + "max > 0" + close).ends_with("the condition is nested too deeply"));
  CHECK(holds(open.substr(1) + "max > 0" + close.substr(1)));
  std::string waiting;  // each level leaves results behind
  for (int i = 0; i < 16; ++i) waiting += "min < 0 or max > 0 and min < 0 and (";
  CHECK(holds(waiting + "max > 0" + std::string(16, ')')));
}
