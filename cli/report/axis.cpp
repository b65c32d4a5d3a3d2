// Round numbers along an axis.
#include "cli/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/text.h"

namespace flow::cli::report {

Range range_of(double least, double greatest) {
  if (!(least <= greatest)) return {};
  least = drawn(least);
  greatest = drawn(greatest);
  const double size = greatest - least;
  const double room = size > 1e-9 * std::max(std::abs(least), std::abs(greatest)) ? size * 0.04
                      : least == 0                                                ? 1
                                   : std::abs(least) * 0.1;
  return {least - room, greatest + room};
}

std::vector<double> ticks(const Range& range, int about) {
  const double rough = (range.to - range.from) / about;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough * 0.9999) break;
  }
  std::vector<double> found;
  const double first = std::ceil(range.from / step);
  for (int i = 0; i <= 2 * about + 2; ++i) {
    const double value = (first + i) * step;
    if (!(value <= range.to)) break;
    found.push_back(value == 0 ? 0 : value);  // not -0
  }
  return found;
}

std::string tick_text(double value, double step) {
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e9 || size < 1e-4)) return fmt::format("{:.3g}", value);
  if (size >= 1e6 && step >= 1e4) return fmt::format("{:g}M", std::round(value / 1e4) / 100);
  if (size >= 1e4 && step >= 10) return fmt::format("{:g}k", std::round(value / 10) / 100);
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 10);
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace flow::cli::report
