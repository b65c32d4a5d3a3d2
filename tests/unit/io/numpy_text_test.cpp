// Arrays as NumPy prints them. NumPy itself judges many more in tests/e2e/npy_test.py.
#include "runtime/io/numpy_text.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <numeric>

namespace flow::io {
namespace {

template <typename T>
std::string text(Shape shape, const std::vector<T>& values) {
  Array array(DTypeOf<T>::value, std::move(shape));
  std::copy(values.begin(), values.end(), array.as<T>().begin());
  return format_numpy(array.view());
}

std::string text_of_half(uint16_t bits) {
  Array array(DType::kFloat16, {});
  std::memcpy(array.bytes().data(), &bits, 2);
  return format_numpy(array.view());
}

TEST_CASE("scalars print with the fewest digits of their own type", "[io]") {
  CHECK(text<float>({}, {2.3025851f}) == "2.3025851");
  CHECK(text<float>({}, {1}) == "1.0");
  CHECK(text<float>({}, {1e-5f}) == "1e-05");
  CHECK(text<float>({}, {16777216}) == "16777216.0");
  CHECK(text<double>({}, {1e16}) == "1e+16");
  CHECK(text<double>({}, {1.0 / 3}) == "0.3333333333333333");
  CHECK(text<int64_t>({}, {-7}) == "-7");
  CHECK(text_of_half(0x2e66) == "0.1");
  CHECK(text_of_half(0x0001) == "6e-08");
}

TEST_CASE("elements of an array share a width", "[io]") {
  CHECK(text<float>({3}, {0.1f, -2, 30.25f}) == "[ 0.1  -2.   30.25]");
  CHECK(text<float>({2}, {0.001f, 1}) == "[0.001 1.   ]");
  CHECK(text<float>({2}, {0.0001f, 0.1f}) == "[1.e-04 1.e-01]");
  CHECK(text<int32_t>({3}, {1, -20, 300}) == "[  1 -20 300]");
  CHECK(text<float>({1}, {16777218}) == "[16777218.]");
}

TEST_CASE("what is not finite takes its place", "[io]") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(text<float>({4}, {1.5f, nan, -inf, inf}) == "[ 1.5  nan -inf  inf]");
  CHECK(text<float>({2}, {nan, inf}) == "[nan inf]");
}

TEST_CASE("rows stand below each other, blocks apart", "[io]") {
  CHECK(text<int32_t>({2, 2}, {1, 2, 3, 4}) == "[[1 2]\n [3 4]]");
  CHECK(text<int32_t>({2, 1, 2}, {1, 2, 3, 4}) == "[[[1 2]]\n\n [[3 4]]]");
  CHECK(text<float>({3, 0}, {}) == "[]");
}

TEST_CASE("long arrays are summarized", "[io]") {
  std::vector<int32_t> values(1001);
  std::iota(values.begin(), values.end(), 0);
  CHECK(text<int32_t>({1001}, values) == "[   0    1    2 ...  998  999 1000]");
  values.resize(6 * 200);
  const std::string rows = text<int32_t>({6, 200}, values);
  CHECK(std::ranges::count(rows, '\n') == 5);  // no row is left out
}

TEST_CASE("an element and a shape are written as Python does", "[io]") {
  const bool values[] = {true, false};
  const ArrayView view = {DType::kBool, {2}, reinterpret_cast<const std::byte*>(values)};
  CHECK(format_numpy(view) == "[ True False]");
  CHECK(format_element(view, 0) == "True");
  CHECK(shape_tuple({}) == "()");
  CHECK(shape_tuple({3}) == "(3,)");
  CHECK(shape_tuple({2, 3}) == "(2, 3)");
}

}  // namespace
}  // namespace flow::io
