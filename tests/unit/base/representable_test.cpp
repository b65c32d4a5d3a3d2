// Which numbers dtypes hold.
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/base/array.h"

namespace flow {

TEST_CASE("integers and bool hold the whole numbers of their range, and no other", "[base]") {
  struct Range {
    DType dtype;
    double least, largest;
  };
  const Range ranges[] = {{DType::kBool, 0, 1},
                          {DType::kUInt8, 0, 255},
                          {DType::kInt8, -128, 127},
                          {DType::kInt32, -0x1p31, 0x1p31 - 1},
                          {DType::kInt64, -0x1p63, 0x1p63 - 1024}};
  for (const auto& [dtype, least, largest] : ranges) {
    INFO(name_of(dtype));
    CHECK(is_representable(least, dtype));
    CHECK(is_representable(largest, dtype));
    CHECK_FALSE(is_representable(std::nextafter(least, -INFINITY), dtype));
    CHECK_FALSE(is_representable(std::floor(std::nextafter(largest, INFINITY) + 1), dtype));
    CHECK_FALSE(is_representable(0.5, dtype));
    CHECK_FALSE(is_representable(std::nan(""), dtype));
    CHECK_FALSE(can_hold(dtype, INFINITY));
  }
}

TEST_CASE("floats hold what they round to a finite number", "[base]") {
  CHECK(can_hold(DType::kFloat32, 0.1));
  CHECK_FALSE(can_hold(DType::kFloat32, 1e39));
  CHECK(can_hold(DType::kFloat64, 1e39));
  CHECK_FALSE(can_hold(DType::kFloat16, 65520));
}

}  // namespace flow
