// Markup of a report, into which text of users gets only through Html::text, which escapes it; and
// plots: axes and labels as HTML, curves as an SVG that is stretched to the width of the page.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/report/run_data.h"

namespace flow::cli::report {

namespace page {

/// The files of page/, which the build puts into the program.
extern const std::string_view kFragments, kStyle, kScript;

}  // namespace page

/// Names, messages and values longer than this are cut.
inline constexpr size_t kMostText = 300;

/// The text cut to at most `most` bytes, between characters, with "…" where something is missing.
std::string clipped(std::string_view text, size_t most);

class Html {
 public:
  Html() = default;
  /// Escaped and clipped.
  static Html text(std::string_view text, size_t most = kMostText);
  /// Markup or a number that this program wrote.
  static Html trusted(std::string markup);

  Html& operator+=(const Html& more) {
    markup_ += more.markup_;
    return *this;
  }
  bool empty() const { return markup_.empty(); }
  const std::string& str() const { return markup_; }

 private:
  std::string markup_;
};

using Values = std::vector<std::pair<std::string_view, Html>>;

/// The fragment of that name in page/fragments.html, with `{{name}}` replaced by values.
/// REQUIRES: it has those names and no others.
Html fragment(std::string_view name, const Values& values = {});

/// A section with its title and a line below it.
Html section(std::string_view id, std::string_view title, std::string_view remark, Html body);

/// "c3 d0": the classes that give a run its color and dashes.
std::string class_of_run(size_t run);

/// Values beyond are drawn here: their differences would overflow.
inline constexpr double kFarthest = 1e300;
inline double drawn(double value) { return std::clamp(value, -kFarthest, kFarthest); }

/// From the least to the greatest value; never empty.
struct Range {
  double from = 0, to = 1;

  /// As a share of it, 0 to 1.
  double place(double value) const { return (value - from) / (to - from); }
};

/// A range with room at both ends. [0, 1] where least > greatest or one is NaN.
Range range_of(double least, double greatest);

/// Multiples of 1, 2 or 5 times a power of ten inside the range: `about` of them, or a few more.
std::vector<double> ticks(const Range& range, int about);

/// "0.25", "20k", "1e-05": as short as ticks that are `step` apart can be.
std::string tick_text(double value, double step);

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
