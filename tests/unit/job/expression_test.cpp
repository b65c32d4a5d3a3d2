// Arithmetic with Python's meaning.
#include "compiler/job/text/expression.h"

#include <catch2/catch.hpp>

namespace flow::job {
namespace {

std::string value_of(std::string_view text) {
  ExpressionError error;
  const Lookup lookup = [](std::string_view name,
                           ExpressionError& missing) -> std::optional<ExpressionValue> {
    if (name == "n") return int64_t{7};
    if (name == "x") return 0.5;
    missing.message = "unknown";
    return {};
  };
  const auto value = evaluate(text, lookup, error);
  return value ? to_text(*value) : error.message;
}

TEST_CASE("expressions have Python's precedence", "[job]") {
  CHECK(value_of("1 + 2 * 3") == "7");
  CHECK(value_of("(1 + 2) * 3") == "9");
  CHECK(value_of("-2 ** 2") == "-4");
  CHECK(value_of("2 ** 3 ** 2") == "512");
  CHECK(value_of("2 ** -1") == "0.5");
  CHECK(value_of("10 - 2 - 3") == "5");
}

TEST_CASE("division is exact where it divides and floors on request", "[job]") {
  CHECK(value_of("6 / 2") == "3");
  CHECK(value_of("1 / 4") == "0.25");
  CHECK(value_of("-7 // 2") == "-4");
  CHECK(value_of("-7 % 3") == "2");
  CHECK(value_of("7 % -3") == "-2");
  CHECK(value_of("7.5 // 2") == "3");
  CHECK(value_of("-7.5 % 2") == "0.5");
  CHECK(value_of("7.5 % -2") == "-0.5");
  CHECK(value_of("-7.5 % -2") == "-1.5");
}

TEST_CASE("comparisons chain and choose", "[job]") {
  CHECK(value_of("1 < 2 < 3") == "true");
  CHECK(value_of("1 < 3 < 2") == "false");
  CHECK(value_of("3 < 2 < 5") == "false");
  CHECK(value_of("10 if n >= 7 else 20") == "10");
  CHECK(value_of("10 if n != 7 else 20 if x == 0.5 else 30") == "20");
  CHECK(value_of("min(n, 3, x)") == "0.5");
  CHECK(value_of("max(n, 3)") == "7");
}

TEST_CASE("truth is joined by words, and what decides alone passes over the rest", "[job]") {
  CHECK(value_of("1 < 2 and 2 < 3 or 1 // 0") == "true");
  CHECK(value_of("1 < 2 and not 2 < 3") == "false");
  CHECK(value_of("not n == 7") == "false");
  CHECK(value_of("not not n") == "true");
  CHECK(value_of("0 or n") == "true");
  CHECK(value_of("n == 0 and 1 // 0 > 1") == "false");
  CHECK(value_of("n == 7 and 1 // 0 > 1") == "division by zero");
  CHECK(value_of("1 // 0 or true") == "division by zero");
  CHECK(value_of("true or false and false") == "true");
  CHECK(value_of("2 if n > 0 and x > 0 else 3") == "2");
  CHECK(value_of("n and") == "the expression ends too early");
  CHECK(value_of("nothing") == "unknown");
}

TEST_CASE("integers have 64 bits and overflow is an error", "[job]") {
  CHECK(value_of("2 ** 62") == "4611686018427387904");
  CHECK(value_of("2 ** 63") == "the result is too large for 64 bits");
  CHECK(value_of("9223372036854775807 + 1") == "the result is too large for 64 bits");
  CHECK(value_of("(-9223372036854775807 - 1) // -1") == "the result is too large for 64 bits");
  CHECK(value_of("(-9223372036854775807 - 1) / -1") == "the result is too large for 64 bits");
  CHECK(value_of("6 / -1") == "-6");
  CHECK(value_of("9223372036854775808") == "`9223372036854775808` is too large for 64 bits");
}

TEST_CASE("what has no value says why", "[job]") {
  CHECK(value_of("1 / 0") == "division by zero");
  CHECK(value_of("1 % 0") == "division by zero");
  CHECK(value_of("(1 + 2") == "unclosed parenthesis");
  CHECK(value_of("1 +") == "the expression ends too early");
  CHECK(value_of("1 2") == "unexpected `2`");
  CHECK(value_of("m") == "unknown");
  CHECK(value_of("1 if n") == "`if` requires `else`");
  CHECK(value_of("010") == "unexpected `010`; expected a number");
  CHECK(value_of("1e308 * 10") == "the result is not a finite number");
  CHECK(value_of("") == "the expression ends too early");
}

TEST_CASE("what `if else` passes over needs no value", "[job]") {
  CHECK(value_of("1 // 0 if n == 0 else 5") == "5");
  CHECK(value_of("5 if n == 7 else n // 0") == "5");
  CHECK(value_of("1 + (2 if n == 7 else 1 / 0)") == "3");
  CHECK(value_of("1 // 0 if n == 7 else 5") == "division by zero");
  CHECK(value_of("5 if 1 // 0 else 6") == "division by zero");
  CHECK(value_of("1 / 0 + (2 if n else 3)") == "division by zero");
  CHECK(value_of("2 ** 64 if n == 0 else 2 ** 3") == "8");
}

TEST_CASE("nesting without end is refused", "[job]") {
  CHECK(value_of(std::string(100000, '(')) == "the expression is nested too deeply");
  CHECK(value_of(std::string(100000, '-') + "1") == "the expression is nested too deeply");
}

}  // namespace
}  // namespace flow::job
