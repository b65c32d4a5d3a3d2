// A plot: axes and labels as HTML, curves as an SVG that is stretched to the width of the page.
#pragma once

#include <string>
#include <vector>

#include "cli/report/axis.h"
#include "cli/report/html.h"
#include "cli/report/series.h"

namespace flow::cli::report {

struct Plot {
  Range x, y;
  std::string x_name;                                              // "step"
  std::vector<std::pair<double, std::string>> x_labels, y_labels;  // places on axes
  Html drawing;                                                    // inside the SVG
};

/// The drawing's own coordinates: 0 to 1000 from the left and from the top.
inline constexpr double kDrawing = 1000;

Html draw(const Plot& plot);

/// Labels at ticks.
std::vector<std::pair<double, std::string>> tick_labels(const Range& range, int about);

/// "M0 500h0L12 480": an SVG path through the points, with gaps where y is NaN.
std::string path_through(const std::vector<Series::Point>& points, const Plot& plot);
/// "M0 500h0M12 480h0": dots instead, where they are few.
std::string dots_at(const std::vector<Series::Point>& points, const Plot& plot);

}  // namespace flow::cli::report
