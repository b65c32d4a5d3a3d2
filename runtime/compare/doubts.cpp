// Constants, and tolerances wider than what they judge.
#include "runtime/compare/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/io/elements.h"

namespace flow::compare {
namespace {

template <typename T>
Spread spread_in(std::span<const T> values) {
  Spread spread;
  double sum = 0, magnitude = 0, squares = 0;
  spread.constant = values.size() >= 2;
  for (const T& element : values) {
    const auto value = static_cast<double>(element);
    spread.constant &= value == static_cast<double>(values.front());
    if (!std::isfinite(value)) continue;
    ++spread.finite;
    sum += value;
    magnitude += std::abs(value);
  }
  if (spread.finite == 0) return spread;
  const auto count = static_cast<double>(spread.finite);
  for (const T& element : values)
    if (const auto value = static_cast<double>(element); std::isfinite(value))
      squares += (value - sum / count) * (value - sum / count);
  spread.deviation = std::sqrt(squares / count);
  spread.mean_magnitude = magnitude / count;
  return spread;
}

}  // namespace

Spread spread_of(const ArrayView& golden) {
  return io::visit_elements(golden, [](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    return spread_in<T>(values);
  });
}

std::vector<std::string> doubts_of_values(const ArrayView& golden, const Spread& spread,
                                          const std::string& first) {
  if (!is_float(golden.dtype) || !spread.constant) return {};
  return {fmt::format("golden is constant: every element is {}", first)};
}

bool is_too_wide(const Tolerance& tolerance, const Spread& spread) {
  if (spread.finite < 2) return false;
  return tolerance.relative >= 1 || tolerance.at(spread.mean_magnitude) >= spread.deviation;
}

}  // namespace flow::compare
