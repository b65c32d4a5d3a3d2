// Can a number be an element of a dtype as it is?
#include "runtime/base/representable.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/base/convert.h"

namespace flow {
namespace {

/// `value` as the nearest element of a float dtype.
double rounded(DType dtype, double value) {
  return visit_any_float(dtype, [&]<typename T>(T) { return convert<double>(convert<T>(value)); });
}

std::string_view range_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "numbers up to 3.4028235e+38";
    case DType::kFloat64:
      return "numbers up to 1.7976931348623157e+308";
    case DType::kFloat16:
      return "numbers up to 65504";
    case DType::kBFloat16:
      return "numbers up to 3.3895314e+38";
    case DType::kInt8:
      return "whole numbers from -128 to 127";
    case DType::kInt32:
      return "whole numbers from -2147483648 to 2147483647";
    case DType::kInt64:
      return "whole numbers from -9223372036854775808 to 9223372036854775807";
    case DType::kUInt8:
      return "whole numbers from 0 to 255";
    case DType::kBool:
      return "0 and 1";
  }
  return {};
}

}  // namespace

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

bool can_hold(DType dtype, double value) {
  return is_float(dtype) ? std::isfinite(rounded(dtype, value)) : is_representable(value, dtype);
}

std::string holds(DType dtype) {
  return fmt::format("{} stores {}", name_of(dtype), range_of(dtype));
}

}  // namespace flow
