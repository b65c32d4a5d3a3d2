// Numbers, integers and bools of CSV files. Values come from std::strtod, which the C library
// rounds correctly, and from counting.
#include "runtime/data/csv/numbers.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "runtime/data/csv/plain_number.h"

namespace flow::data {
namespace {

std::string number(std::string_view text, const CsvMarks& marks = {}) {
  double value = 0;
  switch (parse_csv_number(text, marks, value)) {
    case NumberFault::kNone:
      return fmt::format("{}", value);
    case NumberFault::kRange:
      return "range";
    default:
      return "syntax";
  }
}

std::string integer(std::string_view text, const CsvMarks& marks = {}) {
  int64_t value = 0;
  switch (parse_csv_integer(text, marks, value)) {
    case NumberFault::kNone:
      return fmt::format("{}", value);
    case NumberFault::kRange:
      return "range";
    case NumberFault::kFraction:
      return "fraction";
    default:
      return "syntax";
  }
}

TEST_CASE("numbers have signs, fractions and exponents", "[data]") {
  for (const char* text : {"0",
                           "7",
                           "-7",
                           "+7",
                           "007",
                           "7.",
                           ".5",
                           "-.5",
                           "7.25",
                           "1e3",
                           "1E+3",
                           "1e-3",
                           "1.e2",
                           "-0",
                           "1e308",
                           "4.9e-324",
                           "1e-400",
                           "-1e-400",
                           "0e99999999999999999999",
                           "9007199254740993",
                           "123456789012345678901234"})
    CHECK(number(text) == fmt::format("{}", std::strtod(text, nullptr)));
  CHECK(number(" \t1.5 ") == "1.5");
}

TEST_CASE("other texts are not numbers", "[data]") {
  for (const char* text : {"",      " ",   ".",   "-",        "+",   "e3",    "1e",       "1e+",
                           "1.5.2", "--1", "+-1", "1 2",      "inf", "nan",   "Infinity", "0x10",
                           "1_000", "12%", "1,5", "\xD9\xA1", "1f",  "1e5.5", "1\n",      "1;"})
    CHECK(number(text) == "syntax");
}

TEST_CASE("a number that is too large for float64 is refused", "[data]") {
  for (const std::string& text :
       {std::string("1e309"), std::string("-1e309"), std::string("1.7976931348623159e308"),
        std::string("1e99999999999"), std::string(400, '9'), "0." + std::string(10, '0') + "1e400"})
    CHECK(number(text) == "range");
  CHECK(number("0." + std::string(400, '0') + "1e400") == "0.1");
  CHECK(number("1" + std::string(400, '0') + "e-400") == "1");
}

TEST_CASE("random numbers are rounded to the nearest float64", "[data]") {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t bits = draw();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const std::string text = i % 2 ? fmt::format("{:.{}e}", value, i % 23)
                                   : fmt::format("{:.{}f}", std::remainder(value, 1e6), i % 19);
    double parsed = 0;
    REQUIRE(parse_csv_number(text, {}, parsed) == NumberFault::kNone);
    if (parsed != std::strtod(text.c_str(), nullptr)) FAIL(text);
  }
}

/// Parses a plain number in the middle of other bytes.
bool parse_plain(const std::string& text, PlainNumber& plain) {
  const std::string around(kPlainNumberBytes, ';'), bytes = around + text + around;
  const char* const begin = bytes.data() + around.size();
  return is_plain_number(begin, begin + text.size(), '.', plain);
}

TEST_CASE("plain numbers round as other numbers do", "[data]") {
  std::mt19937_64 draw(2);
  for (int i = 0; i < 200'000; ++i) {
    std::string digits = fmt::format("{}", draw() >> (i % 64)).substr(0, kMantissaDigits);
    if (i % 3 != 0) digits.insert(draw() % (digits.size() + 1), ".");
    const std::string text = (i % 5 == 0 ? "-" : "") + digits;
    PlainNumber plain;
    REQUIRE(parse_plain(text, plain));
    double value = 0;
    if (!round_plain_number(plain, value)) value = round_any_plain_number(plain);
    if (value != std::strtod(text.c_str(), nullptr)) FAIL(text);
  }
}

TEST_CASE("numbers halfway between two float64 round to even", "[data]") {
  // 2^53 + 1 and 2^54 + 2 are halfway between float64.
  for (const char* text : {"9007199254740993", "900719925474099.3", "18014398509481986",
                           "9007199254740993.0", "9007199254740995"}) {
    PlainNumber plain;
    REQUIRE(parse_plain(text, plain));
    double value = 0;
    if (!round_plain_number(plain, value)) value = round_any_plain_number(plain);
    CHECK(value == std::strtod(text, nullptr));
  }
}

TEST_CASE("a plain number has nothing else around it", "[data]") {
  for (const char* text : {"", "-", ".", "+1", " 1", "1 ", "1e5", "1.2.3", "--1",
                           "12345678901234567890", "1234567890.12345678901", "\"1\""}) {
    PlainNumber plain;
    INFO(text);
    CHECK_FALSE(parse_plain(text, plain));
  }
}

TEST_CASE("marks of other countries separate decimals and thousands", "[data]") {
  const CsvMarks german = {',', '.'};
  CHECK(number("1.234.567,5", german) == "1234567.5");
  CHECK(number("-1.234", german) == "-1234");
  CHECK(number("1234,5e-1", german) == "123.45");
  CHECK(number("0,1234567890123456789012345", german) == number("0.1234567890123456789012345"));
  for (const char* text :
       {"1.2.3", "1234.567", "1.23", "1.2345", ".123", "1..234", "1,5.000", "1."})
    CHECK(number(text, german) == "syntax");
  CHECK(number("1 234.5", {'.', ' '}) == "1234.5");
  CHECK(integer("12.345.678", german) == "12345678");
  CHECK(integer("3,0", german) == "3");
}

TEST_CASE("integers are exact decimal numbers that are whole", "[data]") {
  CHECK(integer("3.0") == "3");
  CHECK(integer("1e3") == "1000");
  CHECK(integer("-12.5e1") == "-125");
  CHECK(integer("12000e-3") == "12");
  CHECK(integer("9223372036854775807") == "9223372036854775807");
  CHECK(integer("-9223372036854775808") == "-9223372036854775808");
  CHECK(integer("9223372036854775807." + std::string(30, '0')) == "9223372036854775807");
  CHECK(integer("0." + std::string(40, '0') + "7e41") == "7");
  CHECK(integer("0e-99999999999") == "0");
  CHECK(integer("-0") == "0");
  for (const char* text :
       {"9223372036854775808", "-9223372036854775809", "1e19", "1e99999999999",
        "18446744073709551616", "92233720368547758070", "12345678901234567890.5"})
    CHECK(integer(text) == "range");
  for (const char* text : {"3.5", "1e-1", "0.1", "9223372036854775807.5", "1e-99999999999",
                           "1.00000000000000000000000000000001"})
    CHECK(integer(text) == "fraction");
  CHECK(integer("three") == "syntax");
}

TEST_CASE("bools have twelve spellings in any case", "[data]") {
  for (const char* text : {"true", "YES", "t", "Y", "On", "1", " true\t"})
    CHECK(parse_csv_bool(text) == true);
  for (const char* text : {"false", "No", "F", "n", "oFF", "0"})
    CHECK(parse_csv_bool(text) == false);
  for (const char* text : {"", "2", "tru", "truee", "1.0", "-1"})
    CHECK(parse_csv_bool(text) == std::nullopt);
}

}  // namespace
}  // namespace flow::data
