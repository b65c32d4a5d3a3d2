// Floats as decimal digits: the fewest that identify the value, or rounded to a place.
#pragma once

#include <string>

#include "runtime/io/elements.h"

namespace flow::io {

/// +-d.ddd * 10^exponent, without trailing zeros; zero is "0" * 10^0.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;

  int fraction_digits() const { return static_cast<int>(digits.size()) - 1 - exponent; }
  /// "12.5", "0.001", "3."
  std::string positional() const;
  /// "1.25", "-1.": what stands before the exponent.
  std::string significand() const;
};

/// The fewest digits that no other value of the type shares, nearest to `value`, which is finite.
Decimal shortest_decimal(double value);
Decimal shortest_decimal(float value);
Decimal shortest_decimal(Float16 value);

/// "+09", "-100": the exponent with its sign and at least two digits.
std::string exponent_text(int exponent);

/// NumPy's str() of a scalar: "1.0", "2.3025851", "1e-05", "nan", "-inf".
template <typename T>
std::string scalar_text(T value);

extern template std::string scalar_text(double);
extern template std::string scalar_text(float);
extern template std::string scalar_text(Float16);

}  // namespace flow::io
