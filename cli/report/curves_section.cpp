// Metrics over steps, histograms of watched tensors, and samples of returned ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/report/html.h"
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

namespace {

constexpr size_t kMostRunsShown = 4;

/// The elements of a histogram, counted again in `cells` cells of a range: a bin gives each cell
/// what overlaps.
std::vector<double> counted_again(const Histogram& histogram, const Range& range, size_t cells) {
  std::vector<double> counts(cells, 0.0);
  const double width = (range.to - range.from) / static_cast<double>(cells);
  const double start = drawn(histogram.from);
  const double bin = (drawn(histogram.to) - start) / static_cast<double>(histogram.counts.size());
  const auto cell_of = [&](double x) {
    return std::clamp((x - range.from) / width, 0.0, static_cast<double>(cells) - 1e-9);
  };
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const double from = start + bin * static_cast<double>(i);
    const double first = cell_of(from), last = std::max(cell_of(from + bin), first + 1e-9);
    for (size_t cell = static_cast<size_t>(first);
         cell <= static_cast<size_t>(last) && cell < cells; ++cell) {
      const auto left = static_cast<double>(cell);
      const double part = std::min(last, left + 1) - std::max(first, left);
      counts[cell] += histogram.counts[i] * std::max(part, 0.0) / (last - first);
    }
  }
  return counts;
}

/// Ridges behind each other, the newest in front.
class Ridges {
 public:
  explicit Ridges(const Distribution& found) : found_(found) {
    double least = found.histograms[0].from, greatest = found.histograms[0].to;
    for (const Histogram& each : found.histograms) {
      least = std::min(least, each.from);
      greatest = std::max(greatest, each.to);
    }
    range_ = range_of(least, greatest);
    for (const Histogram& each : found.histograms) {
      counts_.push_back(counted_again(each, range_, kCells));
      double sum = 0;
      for (const double count : counts_.back()) sum += count;
      for (double& count : counts_.back()) count /= std::max(sum, 1.0);
      heights_.push_back(*std::ranges::max_element(counts_.back()));
    }
  }

  Html draw() const {
    Plot plot{.x = range_,
              .y = {0, 1},
              .x_name = "value",
              .x_labels = tick_labels(range_, 4),
              .y_labels = {},
              .drawing = {}};
    const size_t count = counts_.size();
    // One spike, such as of zeros at the start, leaves the others visible.
    std::vector<double> sorted = heights_;
    std::ranges::sort(sorted);
    const double full = 1.5 * std::max(sorted[sorted.size() / 2], 1e-12);
    for (size_t i = 0; i < count; ++i) {
      const double base = base_of(i);
      plot.drawing += ridge(counts_[i], base, full, i);
      const size_t stride = (count + 5) / 6, left = count - 1 - i;
      if (left == 0 || (i % stride == 0 && left >= (stride + 1) / 2))
        plot.y_labels.emplace_back(1 - base / kDrawing, std::to_string(found_.histograms[i].step));
    }
    return report::draw(plot);
  }

 private:
  static constexpr size_t kCells = 64;
  static constexpr double kTop = 220, kRidge = 210;

  double base_of(size_t i) const {
    const size_t count = counts_.size();
    return count == 1
               ? kDrawing
               : kTop + (kDrawing - kTop) * static_cast<double>(i) / static_cast<double>(count - 1);
  }

  Html ridge(const std::vector<double>& counts, double base, double full, size_t i) const {
    std::string path = fmt::format("M0 {:.4g}", base);
    for (size_t cell = 0; cell < counts.size(); ++cell) {
      const double height = kRidge * std::min(1.0, counts[cell] / full);
      const double x = kDrawing * (static_cast<double>(cell) + 0.5) / static_cast<double>(kCells);
      path += fmt::format("L{:.4g} {:.4g}", x, base - height);
    }
    path += fmt::format("L1000 {:.4g}", base);
    const size_t count = counts_.size();
    const size_t shade = count == 1 ? 100 : 15 + 70 * i / (count - 1);
    return fragment("ridge", {{"path", Html::trusted(path)},
                              {"shade", Html::trusted(std::to_string(shade))},
                              {"step", Html::trusted(std::to_string(found_.histograms[i].step))}});
  }

  const Distribution& found_;
  Range range_;
  std::vector<std::vector<double>> counts_;  // by histogram: shares
  std::vector<double> heights_;              // the greatest of each
};

std::string remark_on(const Distribution& found) {
  const size_t shown = found.histograms.size();
  return shown < found.events ? fmt::format("{} of {} events", shown, grouped_digits(found.events))
                              : counted(shown, "event");
}

Html figures_of(const Arrays& arrays) {
  Html figures;
  for (const Distribution& found : arrays.distributions)
    figures +=
        fragment("distribution", {{"name", Html::text(found.name)},
                                  {"kind", found.gradient ? fragment("gradient tag") : Html()},
                                  {"remark", Html::text(remark_on(found))},
                                  {"plot", Ridges(found).draw()}});
  return figures;
}

Html figure_of(const Sample& sample) {
  Html values, picture;
  for (const auto& [step, text] : sample.values)
    values += fragment("values", {{"step", Html::text(step)}, {"text", Html::text(text, 600)}});
  if (!sample.picture.empty()) {
    constexpr size_t kWidth = 480;
    const size_t zoom = std::clamp<size_t>(kWidth / sample.picture_width, 1, 8);
    picture = fragment("sample picture",
                       {{"uri", Html::trusted(sample.picture)},
                        {"width", Html::trusted(std::to_string(sample.picture_width * zoom))},
                        {"height", Html::trusted(std::to_string(sample.picture_height * zoom))},
                        {"caption", Html::text(sample.caption)}});
  }
  return fragment("sample", {{"name", Html::text(sample.name)},
                             {"type", Html::text(sample.type)},
                             {"picture", picture},
                             {"values", values}});
}

Html samples_of(const Arrays& arrays) {
  Html figures;
  for (const Sample& sample : arrays.samples) figures += figure_of(sample);
  return figures;
}

/// The figures of each run, below its name where there are several.
template <typename FiguresOf>
Html by_run(const Report& report, const FiguresOf& figures_of) {
  Html body;
  size_t shown = 0, left_out = 0;
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const Html figures = figures_of(report.arrays[i]);
    if (figures.empty()) continue;
    if (shown == kMostRunsShown) {
      ++left_out;
      continue;
    }
    body += report.runs.size() == 1
                ? fragment("figures", {{"figures", figures}})
                : fragment("figures of run", {{"class", Html::trusted(class_of_run(i))},
                                              {"open", Html::trusted(shown == 0 ? " open" : "")},
                                              {"name", Html::text(report.runs[i].name)},
                                              {"figures", figures}});
    ++shown;
  }
  if (left_out > 0)
    body += fragment(
        "omitted",
        {{"text", Html::text(fmt::format("{} left out", counted(left_out, "other run")))}});
  return body;
}

}  // namespace

Html distributions_section(const Report& report) {
  const Html body = by_run(report, figures_of);
  if (body.empty()) return body;
  return section("distributions", "Distributions",
                 "watched values and gradients; each ridge is a step, the newest in front", body);
}

Html samples_section(const Report& report) {
  const Html body = by_run(report, samples_of);
  if (body.empty()) return body;
  return section("samples", "Returned", "first values of the first and of the last step", body);
}

}  // namespace flow::cli::report
