// Computes the weights of resizing filters.
#include "runtime/data/image/filter.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace flow::data {
namespace {

double triangle(double t) {
  t = std::abs(t);
  return t < 1 ? 1 - t : 0;
}

/// R. Keys, "Cubic convolution interpolation for digital image processing" (1981), a = -0.5.
double cubic(double t) {
  constexpr double a = -0.5;
  t = std::abs(t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return (((t - 5) * t + 8) * t - 4) * a;
  return 0;
}

/// Appends the weights of one output as integers.
void append_weights(std::span<const double> values, std::vector<int32_t>& weights) {
  double sum = 0;
  for (const double value : values) sum += value;
  for (const double value : values) {
    const double weight = sum != 0 ? value / sum : value;
    weights.push_back(
        static_cast<int32_t>(weight * (1 << kWeightBits) + (weight < 0 ? -0.5 : 0.5)));
  }
}

}  // namespace

FilterAxis filter_axis(int64_t in, int64_t out, int64_t first_out, int64_t count, Filter filter) {
  const auto kernel = filter == Filter::kBilinear ? triangle : cubic;
  const double step = static_cast<double>(in) / static_cast<double>(out);
  const double widening = std::max(step, 1.0);
  const double support = (filter == Filter::kBilinear ? 1.0 : 2.0) * widening;
  FilterAxis axis;
  std::vector<double> values;
  for (int64_t x = first_out; x < first_out + count; ++x) {
    const double center = (static_cast<double>(x) + 0.5) * step;
    const auto first =
        std::max<int64_t>(0, static_cast<int64_t>(std::trunc(center - support + 0.5)));
    const auto last = std::min(in, static_cast<int64_t>(std::trunc(center + support + 0.5)));
    values.clear();
    for (int64_t i = 0; i < last - first; ++i)
      values.push_back(kernel((static_cast<double>(i + first) - center + 0.5) * (1 / widening)));
    axis.taps.push_back({first, last - first, axis.weights.size()});
    append_weights(values, axis.weights);
  }
  return axis;
}

}  // namespace flow::data
