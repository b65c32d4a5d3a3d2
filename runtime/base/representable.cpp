// Can a number be an element of a dtype as it is?
#include "runtime/base/representable.h"

#include <cmath>

namespace flow {

bool is_representable(double value, DType dtype) {
  const auto whole_in = [value](double low, double high) {
    return low <= value && value <= high && value == std::floor(value);
  };
  switch (dtype) {
    case DType::kBool:
      return whole_in(0, 1);
    case DType::kUInt8:
      return whole_in(0, 255);
    case DType::kInt8:
      return whole_in(-128, 127);
    case DType::kInt32:
      return whole_in(-0x1p31, 0x1p31 - 1);
    case DType::kInt64:
      return whole_in(-0x1p63, 0x1p63 - 1024);  // the largest double below 2^63
    default:
      return true;
  }
}

}  // namespace flow
