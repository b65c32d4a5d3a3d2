// Shapes, dtypes and arrays of the host.
#include "runtime/base/array.h"

#include <catch2/catch.hpp>
#include <limits>

namespace flow {
namespace {

TEST_CASE("a scalar has one element and an empty axis none", "[base]") {
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{100, 1, 28, 28}.elements() == 78400);
  CHECK(Shape{5, 0, 3}.elements() == 0);
  CHECK(Shape{2, 3, 4}.elements(1, 3) == 12);
  CHECK(Shape{2, 3, 4}.elements(1, 1) == 1);
}

TEST_CASE("a shape reads as a list", "[base]") {
  CHECK(Shape{}.str() == "[]");
  CHECK(Shape{100, 1, 28, 28}.str() == "[100, 1, 28, 28]");
}

TEST_CASE("element counts that overflow are found, also behind a zero", "[base]") {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  CHECK(Shape{2, 3}.checked_elements() == 6);
  CHECK_FALSE(Shape{kHuge, 2}.checked_elements());
  CHECK_FALSE(Shape{int64_t{1} << 32, int64_t{1} << 32}.checked_elements());
  CHECK_FALSE(Shape{0, kHuge, kHuge}.checked_elements());
  CHECK_FALSE(Shape{-1}.checked_elements());
  CHECK_FALSE(Shape{kHuge / 8}.checked_elements());
  CHECK(Shape{kHuge / 16}.checked_elements() == kHuge / 16);
}

TEST_CASE("dtypes and their names are each other's inverse", "[base]") {
  for (const DType dtype : all_dtypes()) CHECK(parse_dtype(name_of(dtype)) == dtype);
  CHECK(all_dtypes().size() == 9);
  CHECK_FALSE(parse_dtype("float"));
  CHECK_FALSE(parse_dtype("Float32"));
}

TEST_CASE("dtypes are floats, integers or bool", "[base]") {
  CHECK(is_float(DType::kBFloat16));
  CHECK(is_integer(DType::kUInt8));
  CHECK_FALSE(is_float(DType::kBool));
  CHECK_FALSE(is_integer(DType::kBool));
  CHECK(size_of(DType::kFloat16) == 2);
  CHECK(size_of(DType::kInt64) == 8);
}

TEST_CASE("an array is zero at first and typed", "[base]") {
  Array array(DType::kInt32, {2, 3});
  CHECK(array.bytes().size() == 24);
  for (const int32_t value : array.as<int32_t>()) CHECK(value == 0);
  array.as<int32_t>()[5] = 7;
  CHECK(array.view().as<int32_t>()[5] == 7);
  CHECK_THROWS_AS(array.as<float>(), Defect);
}

TEST_CASE("a broken promise names its place and its message", "[base]") {
  try {
    FLOW_CHECK(1 > 2, "values {} and {}", 1, 2);
    FAIL("FLOW_CHECK did not throw");
  } catch (const Defect& defect) {
    const std::string message = defect.what();
    CHECK(message.find("shape_test.cpp:") != std::string::npos);
    CHECK(message.find("check `1 > 2` failed: values 1 and 2") != std::string::npos);
  }
}

}  // namespace
}  // namespace flow
