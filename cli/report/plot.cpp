// Draws axes and paths.
#include "cli/report/plot.h"

#include <fmt/format.h>

#include <cmath>

namespace flow::cli::report {
namespace {

/// A tenth of a thousandth of the plot is enough.
std::string coordinate(double share) { return fmt::format("{:.5g}", share * kDrawing); }

/// A line of no length, which has round ends: a dot.
constexpr const char* kNoLength = "h0";

std::string place_of(const Series::Point& point, const Plot& plot) {
  return coordinate(plot.x.place(point.x)) + ' ' + coordinate(1 - plot.y.place(point.y));
}

}  // namespace

std::vector<std::pair<double, std::string>> tick_labels(const Range& range, int about) {
  const std::vector<double> values = ticks(range, about);
  const double step = values.size() > 1 ? values[1] - values[0] : 1;
  std::vector<std::pair<double, std::string>> labels;
  for (const double value : values) labels.emplace_back(value, tick_text(value, step));
  return labels;
}

std::string path_through(const std::vector<Series::Point>& points, const Plot& plot) {
  std::string path;
  bool open = false;
  for (const Series::Point& point : points) {
    const bool finite = std::isfinite(point.y);
    if (finite) path += (open ? 'L' : 'M') + place_of(point, plot) + (open ? "" : kNoLength);
    open = finite;
  }
  return path;
}

std::string dots_at(const std::vector<Series::Point>& points, const Plot& plot) {
  constexpr size_t kFew = 40;
  std::string path;
  for (const Series::Point& point : points)
    if (points.size() <= kFew && std::isfinite(point.y))
      path += 'M' + place_of(point, plot) + kNoLength;
  return path;
}

Html draw(const Plot& plot) {
  Html lines, labels;
  const auto percent = [](double share) { return fmt::format("{:.4g}", share * 100); };
  for (const auto& [value, label] : plot.y_labels) {
    const double place = 1 - plot.y.place(value);
    if (place < 0 || place > 1) continue;
    lines += Html::trusted(fmt::format("<path d=\"M0 {}H1000\"/>", coordinate(place)));
    labels += fragment("y label",
                       {{"place", Html::trusted(percent(place))}, {"text", Html::text(label)}});
  }
  for (const auto& [value, label] : plot.x_labels) {
    const double place = plot.x.place(value);
    if (place < 0 || place > 1) continue;
    labels += fragment("x label",
                       {{"place", Html::trusted(percent(place))}, {"text", Html::text(label)}});
  }
  return fragment("plot", {{"grid", lines},
                           {"drawing", plot.drawing},
                           {"labels", labels},
                           {"x name", Html::text(plot.x_name)}});
}

}  // namespace flow::cli::report
