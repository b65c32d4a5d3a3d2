// Moments and extremes of values, in float64.
#include "runtime/io/statistics.h"

#include <algorithm>
#include <cmath>

#include "runtime/io/elements.h"

namespace flow::io {
namespace {

/// Calls add(x) with each finite element; returns how many others there are.
template <typename Add>
int64_t visit_finite(std::span<const ArrayView> parts, const Add& add) {
  int64_t others = 0;
  for (const ArrayView& part : parts)
    visit_elements(part, [&](auto elements) {
      for (const auto element : elements) {
        const auto x = static_cast<double>(element);
        if (std::isfinite(x))
          add(x);
        else
          ++others;
      }
    });
  return others;
}

}  // namespace

Statistics statistics_of(std::span<const ArrayView> parts) {
  Statistics found;
  int64_t finite = 0, zeros = 0;
  double sum = 0, squares = 0, deviations = 0;
  found.not_finite = visit_finite(parts, [&](double x) {
    found.min = finite == 0 ? x : std::min(found.min, x);
    found.max = finite == 0 ? x : std::max(found.max, x);
    if (x == 0) ++zeros;
    ++finite;
    sum += x;
    squares += x * x;
  });
  if (finite == 0) return found;
  const auto count = static_cast<double>(finite);
  found.zeros = static_cast<double>(zeros) / count;
  found.mean = sum / count;
  found.norm = std::sqrt(squares);
  visit_finite(parts, [&](double x) { deviations += (x - found.mean) * (x - found.mean); });
  found.std = std::sqrt(deviations / count);
  return found;
}

}  // namespace flow::io
