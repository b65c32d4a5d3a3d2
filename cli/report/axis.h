// Where the ticks of an axis are, and what they say.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace flow::cli::report {

/// Values beyond are drawn here: their differences would overflow.
inline constexpr double kFarthest = 1e300;
inline double drawn(double value) { return std::clamp(value, -kFarthest, kFarthest); }

/// From the least to the greatest value; never empty.
struct Range {
  double from = 0, to = 1;

  /// As a share of it, 0 to 1.
  double place(double value) const { return (value - from) / (to - from); }
};

/// With room at both ends. [0, 1] where least > greatest or one is NaN.
Range range_of(double least, double greatest);

/// Multiples of 1, 2 or 5 times a power of ten inside the range: `about` of them, or a few more.
std::vector<double> ticks(const Range& range, int about);

/// "0.25", "20k", "1e-05": as short as ticks that are `step` apart can be.
std::string tick_text(double value, double step);

}  // namespace flow::cli::report
