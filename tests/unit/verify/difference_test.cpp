// Arrays compared bit for bit.
#include "runtime/verify/verify.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

namespace flow::verify {
namespace {

using compare::ArrayDifference;

template <typename T, size_t N>
ArrayView view_of(const std::array<T, N>& values) {
  return {DTypeOf<T>::value, Shape{static_cast<int64_t>(N)},
          reinterpret_cast<const std::byte*>(values.data())};
}

TEST_CASE("arrays of equal bits are equal, NaN included", "[verify]") {
  const std::array<float, 3> a = {1, std::numeric_limits<float>::quiet_NaN(), -0.0F};
  CHECK_FALSE(compare_bits("a", view_of(a), view_of(a)).failed());
}

TEST_CASE("the first element with other bits is named", "[verify]") {
  const std::array<double, 4> a = {1, 2, 3, 4};
  std::array<double, 4> b = {1, 2, 3.5, 4.5};
  const ArrayDifference found = compare_bits("a", view_of(a), view_of(b));
  CHECK(found.failed());
  CHECK(found.first_mismatch == std::vector<int64_t>{2});
  CHECK(found.first_golden == "3.0");
  CHECK(found.first_out == "3.5");
}

TEST_CASE("zeros of other signs and NaNs of other bits differ", "[verify]") {
  const std::array<float, 1> zero = {0.0F}, negative = {-0.0F};
  CHECK(compare_bits("a", view_of(zero), view_of(negative)).failed());
  std::array<float, 1> nan = {std::numeric_limits<float>::quiet_NaN()}, other = nan;
  uint32_t bits = 0;
  std::memcpy(&bits, other.data(), sizeof bits);
  bits ^= 1;
  std::memcpy(other.data(), &bits, sizeof bits);
  const ArrayDifference found = compare_bits("a", view_of(nan), view_of(other));
  CHECK(found.failed());
  CHECK(found.first_golden == "nan (0x7fc00000)");
  CHECK(found.first_out == "nan (0x7fc00001)");
}

TEST_CASE("another dtype or shape differs in words", "[verify]") {
  const std::array<float, 2> a = {1, 2};
  const std::array<double, 2> b = {1, 2};
  const std::array<float, 3> c = {1, 2, 3};
  CHECK(compare_bits("a", view_of(a), view_of(b)).first_out == "float64");
  CHECK(compare_bits("a", view_of(a), view_of(c)).first_out == "[3]");
}

TEST_CASE("a difference is a line", "[verify]") {
  Difference difference{.step = 11, .tensor = "watch/x/value", .index = {3, 0}};
  difference.first = "0.25";
  difference.second = "0.5";
  difference.where = "net.yaml:12:5";
  CHECK(text_of(difference) == "step 11, watch/x/value[3, 0]: 0.25 and 0.5 (net.yaml:12:5)");
}

}  // namespace
}  // namespace flow::verify
