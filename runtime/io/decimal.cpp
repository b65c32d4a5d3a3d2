// Floats as decimal digits.
#include "runtime/io/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace flow::io {

namespace {

/// Reads "-1.25e-05".
Decimal parse_scientific(std::string_view text) {
  Decimal decimal;
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  for (const char c : text.substr(0, e))
    if (c != '.') decimal.digits += c;
  decimal.exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  const size_t last = decimal.digits.find_last_not_of('0');
  decimal.digits.resize(last == std::string::npos ? 1 : last + 1);
  return decimal;
}

template <typename T>
Decimal shortest_of(T value) {
  std::array<char, 40> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  return parse_scientific({text.data(), static_cast<size_t>(end.ptr - text.data())});
}

}  // namespace

std::string Decimal::positional() const {
  const auto point = static_cast<size_t>(std::max(exponent + 1, 0));
  std::string text = digits;
  if (exponent < 0) {
    text.insert(0, static_cast<size_t>(-exponent - 1), '0');
    text.insert(0, "0.");
  } else {
    if (text.size() < point) text.append(point - text.size(), '0');
    text.insert(point, 1, '.');
  }
  if (negative) text.insert(0, 1, '-');
  return text;
}

std::string Decimal::significand() const {
  std::string text = digits;
  text.insert(1, 1, '.');
  if (negative) text.insert(0, 1, '-');
  return text;
}

Decimal shortest_decimal(double value) { return shortest_of(value); }

Decimal shortest_decimal(float value) { return shortest_of(value); }

Decimal shortest_decimal(Float16 value) {
  const double exact = value;
  if (exact == 0) return parse_scientific(std::signbit(exact) ? "-0e0" : "0e0");
  constexpr int kEnough = 4;  // digits after the first that identify any float16
  for (int precision = 0;; ++precision) {
    // Where the values change their spacing, the nearest text may belong to a neighbour while the
    // next one does not.
    const std::string nearest = fmt::format("{:.{}e}", exact, precision);
    const double unit = std::pow(10.0, std::atoi(&nearest[nearest.find('e') + 1]) - precision);
    std::string best;
    for (const double step : {0.0, unit, -unit}) {
      const std::string text =
          fmt::format("{:.{}e}", std::strtod(nearest.c_str(), nullptr) + step, precision);
      const double read = std::strtod(text.c_str(), nullptr);
      if (best.empty() && double_to_float16(read) == value.bits) best = text;
    }
    if (!best.empty()) return parse_scientific(best);
    FLOW_CHECK(precision < kEnough, "float16 {}", exact);
  }
}

std::string exponent_text(int exponent) {
  return fmt::format("{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
}

template <typename T>
std::string scalar_text(T value) {
  const double wide = value;
  if (std::isnan(wide)) return "nan";
  if (std::isinf(wide)) return wide < 0 ? "-inf" : "inf";
  const Decimal decimal = shortest_decimal(value);
  const double size = std::abs(wide);
  if (size == 0 || (size >= 1e-4 && size < 1e16)) {
    const std::string text = decimal.positional();
    return text.ends_with('.') ? text + '0' : text;
  }
  const std::string text = decimal.significand();
  return (text.ends_with('.') ? text.substr(0, text.size() - 1) : text) + 'e' +
         exponent_text(decimal.exponent);
}

template std::string scalar_text(double);
template std::string scalar_text(float);
template std::string scalar_text(Float16);

}  // namespace flow::io
