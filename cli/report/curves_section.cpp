// Metrics over steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/report/plot.h"
#include "cli/report/sections.h"
#include "runtime/base/text.h"

namespace flow::cli::report {
namespace {

/// One metric of all runs.
struct Chart {
  std::string title;
  bool own_steps = false;
  std::vector<std::pair<size_t, const Curve*>> curves;  // with their runs
};

/// In the order of the runs' metrics; the loss comes first.
std::vector<Chart> list_charts(const std::vector<RunData>& runs) {
  std::vector<Chart> charts;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const Curve& curve : runs[i].curves) {
      auto chart = std::ranges::find(charts, curve.title(), &Chart::title);
      if (chart == charts.end()) chart = charts.insert(charts.end(), {curve.title(), false, {}});
      chart->own_steps |= curve.own_steps;
      chart->curves.emplace_back(i, &curve);
    }
  std::stable_partition(charts.begin(), charts.end(),
                        [](const Chart& chart) { return chart.title == "loss"; });
  return charts;
}

using Points = std::vector<Series::Point>;

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

/// {"x": "step", "curves": [{"run": 0, "x": [...], "y": [...]}]}
std::string json_of(const Chart& chart, const std::vector<Points>& points) {
  constexpr int kStepDigits = 12, kValueDigits = 6;
  std::string text = fmt::format(R"({{"x":"{}","curves":[)", chart.own_steps ? "own step" : "step");
  for (size_t i = 0; i < points.size(); ++i) {
    std::vector<std::string> xs, ys;
    for (const auto& [x, y] : points[i]) {
      xs.push_back(number(x, kStepDigits));
      ys.push_back(number(y, kValueDigits));
    }
    text += fmt::format(R"({}{{"run":{},"x":[{}],"y":[{}]}})", i > 0 ? "," : "",
                        chart.curves[i].first, join(xs, ","), join(ys, ","));
  }
  return text + "]}";
}

void set_ranges(const std::vector<Points>& all, Plot& plot) {
  bool any_x = false, any_y = false;
  double x_least = 0, x_greatest = 1, y_least = 0, y_greatest = 1;
  for (const Points& points : all)
    for (const auto& [x, y] : points) {
      x_least = any_x ? std::min(x_least, x) : x;
      x_greatest = any_x ? std::max(x_greatest, x) : x;
      any_x = true;
      if (!std::isfinite(y)) continue;
      y_least = any_y ? std::min(y_least, y) : y;
      y_greatest = any_y ? std::max(y_greatest, y) : y;
      any_y = true;
    }
  plot.y = range_of(y_least, y_greatest);
  x_least = drawn(x_least);
  x_greatest = drawn(x_greatest);
  plot.x = x_least < x_greatest ? Range{x_least, x_greatest} : Range{x_least - 1, x_least + 1};
}

/// "last 0.0312 at step 99 · 0.0211 to 2.31 · 1 value is not finite"
std::string remark_on(const Chart& chart, size_t shown) {
  uint64_t count = 0, gaps = 0;
  for (const auto& [run, curve] : chart.curves) {
    count += curve->series.count();
    gaps += curve->series.gaps();
  }
  std::vector<std::string> parts;
  const Series& series = chart.curves[0].second->series;
  if (const auto last = series.last(); last && chart.curves.size() == 1)
    parts.push_back(fmt::format("last {}, range {} to {}", human_number(last->y),
                                human_number(series.least()->y),
                                human_number(series.greatest()->y)));
  if (shown < count)
    parts.push_back(fmt::format("{} of {} points", grouped_digits(shown), grouped_digits(count)));
  if (gaps > 0) parts.push_back(fmt::format("{} not finite", grouped_digits(gaps)));
  return join(parts, " · ");
}

/// The figure, and its data for the script.
Html figure_of(const Chart& chart, size_t number, size_t most_points, std::string& data) {
  std::vector<Points> all;
  size_t shown = 0;
  for (const auto& [run, curve] : chart.curves) {
    all.push_back(curve->series.points(most_points));
    shown += all.back().size();
  }
  Plot plot;
  set_ranges(all, plot);
  constexpr int kXTicks = 5, kYTicks = 5;
  plot.x_labels = tick_labels(plot.x, kXTicks);
  std::erase_if(plot.x_labels,
                [](const auto& label) { return label.first != std::floor(label.first); });
  plot.y_labels = tick_labels(plot.y, kYTicks);
  plot.x_name = chart.own_steps ? "step of that job" : "step";
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t run = chart.curves[i].first;
    plot.drawing += fragment("curve", {{"class", Html::trusted(class_of_run(run))},
                                       {"index", Html::trusted(std::to_string(run))},
                                       {"path", Html::trusted(path_through(all[i], plot))},
                                       {"dots", Html::trusted(dots_at(all[i], plot))}});
  }
  data += (number > 0 ? ",\n" : "") + json_of(chart, all);
  return fragment("chart", {{"number", Html::trusted(std::to_string(number))},
                            {"title", Html::text(chart.title)},
                            {"remark", Html::text(remark_on(chart, shown))},
                            {"plot", draw(plot)}});
}

Html row_of(const std::vector<double>& row, double greatest) {
  constexpr double kDarkest = 45;  // percent: text stays readable
  Html cells;
  for (const double value : row) {
    const double share = greatest > 0 && value > 0 ? std::min(1.0, value / greatest) : 0;
    cells += fragment("matrix cell",
                      {{"shade", Html::trusted(std::to_string(std::lround(share * kDarkest)))},
                       {"value", Html::text(human_number(value))}});
  }
  return fragment("matrix row", {{"cells", cells}});
}

/// Each matrix of each run, as it was last.
Html matrices_of(const std::vector<RunData>& runs) {
  Html figures;
  for (const RunData& run : runs)
    for (const Matrix& matrix : run.matrices) {
      double greatest = 0;
      for (const auto& row : matrix.rows)
        for (const double value : row)
          if (std::isfinite(value)) greatest = std::max(greatest, value);
      Html rows;
      for (const auto& row : matrix.rows) rows += row_of(row, greatest);
      const std::string of = runs.size() > 1 ? run.name + ", " : "";
      figures += fragment("matrix",
                          {{"title", Html::text(matrix.title)},
                           {"remark", Html::text(fmt::format("{}step {:.12g}", of, matrix.step))},
                           {"rows", rows}});
    }
  return figures.empty() ? figures : fragment("matrices", {{"figures", figures}});
}

Html legend_of(const std::vector<RunData>& runs) {
  if (runs.size() < 2) return {};
  Html items;
  for (size_t i = 0; i < runs.size(); ++i)
    items += fragment("legend item", {{"class", Html::trusted(class_of_run(i))},
                                      {"index", Html::trusted(std::to_string(i))},
                                      {"name", Html::text(runs[i].name, 60)}});
  return fragment("legend", {{"items", items}});
}

}  // namespace

Html curves_section(const Report& report) {
  constexpr size_t kMostPoints = 120'000, kLeastOfCurve = 60, kMostOfCurve = 800;
  const std::vector<Chart> charts = list_charts(report.runs);
  const Html matrices = matrices_of(report.runs);
  if (charts.empty())
    return section("curves", "Metrics", "", matrices.empty() ? fragment("no metrics") : matrices);
  size_t curves = 0;
  for (const Chart& chart : charts) curves += chart.curves.size();
  const size_t most = std::clamp(kMostPoints / curves, kLeastOfCurve, kMostOfCurve);
  Html figures;
  std::string data;
  for (size_t i = 0; i < charts.size(); ++i) figures += figure_of(charts[i], i, most, data);
  Html body = fragment(
      "curves",
      {{"legend", legend_of(report.runs)}, {"figures", figures}, {"charts", Html::trusted(data)}});
  body += matrices;
  return section("curves", "Metrics", "", std::move(body));
}

}  // namespace flow::cli::report
