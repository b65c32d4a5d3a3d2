// Scalars typed by their keys.
#include "compiler/job/text/values.h"

#include <catch2/catch.hpp>

#include "tests/unit/job/reading.h"

namespace flow::job {
namespace {

/// The value of the key `x`.
const yaml::Node& x_of(const Reading& reading) { return *reading.tree.find("x"); }

TEST_CASE("a number is the same however it is written", "[job]") {
  CHECK(parse_number("0.1") == 0.1);
  CHECK(parse_number("1e-1") == 0.1);
  CHECK(parse_number("1/10") == 0.1);
  CHECK(parse_number(".1") == 0.1);
  CHECK(parse_number("-2.5E+3") == -2500.0);
  CHECK(parse_number("1/255") == 1.0 / 255);
  CHECK(parse_number("0e-400") == 0.0);
  for (const char* beyond : {"1e-400", "1e400", "-1e400", "1e300/1e-300"})
    CHECK_FALSE(parse_number(beyond));
}

TEST_CASE("what other YAML readers take for numbers is none", "[job]") {
  for (const char* text : {"010", "1_000", "0x10", "0o17", "+1", "1.", ".", "", "-", "inf", ".inf",
                           "nan", "1e", "1e999", "1/0", "1/2/3", "1 ", "--1", "00.5"}) {
    INFO(text);
    CHECK_FALSE(parse_number(text));
  }
}

TEST_CASE("an integer may be written as any number that is whole", "[job]") {
  CHECK(parse_integer("100") == 100);
  CHECK(parse_integer("1e3") == 1000);
  CHECK(parse_integer("10/2") == 5);
  CHECK(parse_integer("9223372036854775807") == INT64_MAX);
  CHECK_FALSE(parse_integer("9223372036854775808"));
  CHECK_FALSE(parse_integer("0.5"));
  CHECK_FALSE(parse_integer("010"));
}

TEST_CASE("a text that is no number gets a hint how to write it", "[job]") {
  for (const auto& [text, hint] : {std::pair{"010", "write `10`"},
                                   {"1_000", "write `1000`"},
                                   {"0x10", "decimal"},
                                   {"+5", "write `5`"},
                                   {"50%", "write `50/100`"},
                                   {"\"1,000\"", "write `1000`"}}) {
    Reading reading(std::string("x: ") + text + "\n");
    CHECK_FALSE(read_integer(reading.reader, x_of(reading), "`x`"));
    CHECK(reading.says(hint));
  }
}

TEST_CASE("yes and no are hinted to true and false", "[job]") {
  Reading reading("x: yes\n");
  CHECK_FALSE(read_bool(reading.reader, x_of(reading), "`x`"));
  CHECK(reading.says("write `true`"));
}

TEST_CASE("a fraction where an integer is needed is shown", "[job]") {
  Reading reading("x: 1/2\n");
  CHECK_FALSE(read_integer(reading.reader, x_of(reading), "`x`"));
  CHECK(reading.says("`x` is `1/2`; expected an integer"));
}

TEST_CASE("a number outside its bounds is an error that names them", "[job]") {
  Reading reading("x: 0\n");
  CHECK_FALSE(read_integer(reading.reader, x_of(reading), "`x`", {.min = 1}));
  CHECK(reading.says("expected at least 1"));
}

TEST_CASE("an enumeration suggests the nearest word", "[job]") {
  Reading reading("x: tarin\n");
  CHECK_FALSE(read_choice(reading.reader, x_of(reading), "`x`", {"train", "predict"}));
  CHECK(reading.says("did you mean `train`?"));
}

TEST_CASE("quoting changes nothing", "[job]") {
  Reading reading("x: '5'\n");
  CHECK(read_integer(reading.reader, x_of(reading), "`x`") == 5);
}

TEST_CASE("a shape that cannot be counted is an error", "[job]") {
  Reading reading("x: [9000000000000, 9000000000000]\n");
  CHECK_FALSE(read_shape(reading.reader, x_of(reading), "`x`"));
  CHECK(reading.diags.error_count() == 1);
}

}  // namespace
}  // namespace flow::job
