// The 16-bit floats against their definitions.
#include "runtime/base/element_types.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace flow {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_CASE("every float16 survives the way to float and back", "[base]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      REQUIRE(std::isnan(float16_to_float(float_to_float16(value))));
    } else {
      REQUIRE(float_to_float16(value) == bits);
    }
  }
}

TEST_CASE("every bfloat16 survives the way to float and back", "[base]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      REQUIRE(std::isnan(bfloat16_to_float(float_to_bfloat16(value))));
    } else {
      REQUIRE(float_to_bfloat16(value) == bits);
      REQUIRE(double_to_bfloat16(value) == bits);
    }
  }
}

TEST_CASE("float16 has the values that it should", "[base]") {
  CHECK(float16_to_float(0x3c00) == 1);
  CHECK(float16_to_float(0xc000) == -2);
  CHECK(float16_to_float(0x7bff) == 65504);
  CHECK(float16_to_float(0x0001) == 0x1p-24f);
  CHECK(float16_to_float(0x7c00) == kInf);
  CHECK(std::signbit(float16_to_float(0x8000)));
}

TEST_CASE("float16 rounds to the nearest, ties to even", "[base]") {
  CHECK(float_to_float16(1 + 0x1p-11f) == 0x3c00);      // a tie, down to even
  CHECK(float_to_float16(1 + 3 * 0x1p-11f) == 0x3c02);  // a tie, up to even
  CHECK(float_to_float16(1 + 0x1.01p-11f) == 0x3c01);
  CHECK(float_to_float16(65519.9f) == 0x7bff);
  CHECK(float_to_float16(65520) == 0x7c00);
  CHECK(float_to_float16(-kInf) == 0xfc00);
  CHECK(float_to_float16(0x1p-25f) == 0);  // half the least, down to even
  CHECK(float_to_float16(0x1.1p-25f) == 1);
  CHECK(float_to_float16(0x1.ffep-15f) == 0x0400);  // up into the normal numbers
}

TEST_CASE("a float becomes the float16 that a double of its value does", "[base]") {
  const auto check = [](uint32_t bits) {
    const float value = bits_as<float>(bits);
    if (float_to_float16(value) != double_to_float16(static_cast<double>(value)))
      FAIL("the float of bits " << bits);
  };
  // About all that 11 bits of fraction have: float16 numbers, their middles, and what is beside.
  for (uint32_t high = 0; high < uint32_t{1} << 20; ++high)
    for (const uint32_t low : {0x000u, 0x001u, 0x7ffu, 0x800u, 0x801u, 0xfffu})
      check(high << 12 | low);
}

TEST_CASE("bfloat16 rounds to the nearest, ties to even", "[base]") {
  CHECK(float_to_bfloat16(1 + 0x1p-8f) == 0x3f80);
  CHECK(float_to_bfloat16(1 + 3 * 0x1p-8f) == 0x3f82);
  CHECK(float_to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
}

TEST_CASE("a double is rounded once", "[base]") {
  CHECK(double_to_float16(1 + 0x1p-11 + 0x1p-40) == 0x3c01);
  CHECK(double_to_bfloat16(1 + 0x1p-8 + 0x1p-40) == 0x3f81);
  CHECK(double_to_bfloat16(1 + 3 * 0x1p-8 - 0x1p-40) == 0x3f81);
  CHECK(double_to_bfloat16(-(1 + 0x1p-8 + 0x1p-40)) == 0xbf81);
  CHECK(double_to_bfloat16(1e300) == 0x7f80);
  CHECK(double_to_bfloat16(1e-300) == 0);
}

}  // namespace
}  // namespace flow
