// What is wrong with the numbers of a generator.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "runtime/plan/model/generators.h"

using namespace flow;
using namespace flow::plan;

namespace {

/// The messages, each after the number that it is about.
std::string faults(const FromGenerator& from, DType dtype, const Shape& shape = {4},
                   const std::set<std::string_view>& missing = {}) {
  std::string text;
  for (const GeneratorFault& fault : faults_of(from, dtype, shape, missing))
    text += fault.number + ": " + fault.message + "\n";
  return text;
}

std::string integers(double low, double high, DType dtype) {
  return faults(generators::Integers{low, high}, dtype);
}

std::string uniform(double low, double high, DType dtype) {
  return faults(generators::Uniform{low, high}, dtype);
}

std::string normal(double mean, double stddev, DType dtype) {
  return faults(generators::Normal{mean, stddev}, dtype);
}

std::string constant(double value, DType dtype) {
  return faults(generators::Constant{value}, dtype);
}

}  // namespace

TEST_CASE("integers reach to the ends of their dtype, and not beyond", "[plan]") {
  CHECK(integers(-128, 128, DType::kInt8) == "");
  CHECK(integers(-129, 129, DType::kInt8) ==
        "high: `high` is 129, so 128 can occur, which is not a valid int8\n"
        "low: `low` is -129, which is not a valid int8\n");
  CHECK(integers(0, 256, DType::kUInt8) == "");
  CHECK(integers(0, 0, DType::kUInt8) == ": `low` is 0 and `high` 0; expected `low` < `high`\n");
  CHECK(integers(0, 2, DType::kBool) == "");
  CHECK_FALSE(integers(0, 3, DType::kBool).empty());
  CHECK(integers(-0x1p31, 0x1p31, DType::kInt32) == "");
  CHECK(integers(0, 0x1p32, DType::kInt64) == "");
  CHECK(integers(0, 0x1p32 + 1, DType::kInt64) ==
        ": `low` is 0 and `high` 4294967297; expected `high - low` of at most 4294967296\n");
  CHECK(integers(0x1p53 - 5, 0x1p53 - 1, DType::kInt64) == "");
  CHECK_FALSE(integers(0x1p53 - 5, 0x1p53, DType::kInt64).empty());
  CHECK(integers(0, 65504, DType::kFloat16) == "");
  CHECK_FALSE(integers(0, 70000, DType::kFloat16).empty());
}

TEST_CASE("constants are elements of their dtype", "[plan]") {
  CHECK(constant(255, DType::kUInt8) == "");
  CHECK(constant(-1, DType::kUInt8) == "value: `value` is -1, which is not a valid uint8\n");
  CHECK(constant(0.5, DType::kBFloat16) == "");
  CHECK(constant(65519, DType::kFloat16) == "");
  CHECK(constant(65520, DType::kFloat16) ==
        "value: `value` is 65520, which is not a valid float16\n");
  CHECK(constant(3.4028235e38, DType::kFloat32) == "");
  CHECK_FALSE(constant(3.41e38, DType::kFloat32).empty());
  CHECK_FALSE(constant(0x1p62, DType::kInt64).empty());
  CHECK(constant(INFINITY, DType::kFloat32) == "");
  CHECK(constant(INFINITY, DType::kInt32) == "value: `value` is inf; expected a finite number\n");
}

TEST_CASE("iota counts as far as its dtype does", "[plan]") {
  CHECK(faults(generators::Iota(), DType::kInt8, {2, 64}) == "");
  CHECK(faults(generators::Iota(), DType::kInt8, {129}) ==
        ": `iota` counts the elements of [129] up to 128, which is not a valid int8\n");
  CHECK(faults(generators::Iota(), DType::kBool, {2}) == "");
  CHECK(faults(generators::Iota(), DType::kBool, {}) == "");
  CHECK_FALSE(faults(generators::Iota(), DType::kFloat16, {70000}).empty());
}

TEST_CASE("fractions are finite floats", "[plan]") {
  CHECK(uniform(-8e307, 8e307, DType::kFloat64) == "");
  CHECK(uniform(-1e308, 1e308, DType::kFloat64) ==
        ": `low` is -1e+308 and `high` 1e+308; `high - low` is too large for float64\n");
  CHECK(uniform(-3e38, 3e38, DType::kFloat32) == "");
  CHECK(uniform(-1e300, 1e300, DType::kFloat32) ==
        "high: `high` is 1e+300, which is not a valid float32\n"
        "low: `low` is -1e+300, which is not a valid float32\n");
  CHECK(uniform(2, 2, DType::kFloat32) == ": `low` is 2 and `high` 2; expected `low` < `high`\n");
  CHECK(uniform(0, 1, DType::kInt8) == ": `random_uniform` produces fractions, not int8\n");
  CHECK(uniform(NAN, 1, DType::kFloat32) == "low: `low` is nan; expected a finite number\n");
  CHECK(normal(0, 11000, DType::kFloat16) == "");
  CHECK(normal(0, 12000, DType::kFloat16) ==
        ": `mean` is 0 and `stddev` 12000; values 5.77 deviations from the mean do not fit "
        "float16\n");
  CHECK_FALSE(normal(1e308, 1e308, DType::kFloat64).empty());
}

TEST_CASE("numbers that are missing are passed over", "[plan]") {
  CHECK(faults(generators::Integers{0.5, 5}, DType::kInt8, {4}, {"low"}) == "");
  CHECK(faults(generators::Integers{200, 0}, DType::kInt8, {4}, {"high"}) ==
        "low: `low` is 200, which is not a valid int8\n");
  CHECK(faults(generators::Constant{300}, DType::kInt8, {4}, {"value"}) == "");
}
