// The sections with metrics over steps, histograms of watched tensors, and samples of returned
// tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/report/page.h"
#include "runtime/base/text.h"

namespace flow::cli::report {
namespace {

/// One metric with the curves of all runs.
struct Chart {
  std::string title;
  bool own_steps = false;
  std::vector<std::pair<size_t, const Curve*>> curves;  // each with the index of its run
};

/// Lists the charts in the order of the runs' metrics, except that the loss comes first.
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

/// Returns {"x": "step", "curves": [{"run": 0, "class": "c0 d0", "x": [...], "y": [...]}]}.
std::string json_of(const Chart& chart, const std::vector<Points>& points) {
  constexpr int kStepDigits = 12, kValueDigits = 6;
  std::string text = fmt::format(R"({{"x":"{}","curves":[)", chart.own_steps ? "own step" : "step");
  for (size_t i = 0; i < points.size(); ++i) {
    std::vector<std::string> xs, ys;
    for (const auto& [x, y] : points[i]) {
      xs.push_back(number(x, kStepDigits));
      ys.push_back(number(y, kValueDigits));
    }
    const size_t run = chart.curves[i].first;
    text += fmt::format(R"({}{{"run":{},"class":"{}","x":[{}],"y":[{}]}})", i > 0 ? "," : "", run,
                        class_of_run(run), join(xs, ","), join(ys, ","));
  }
  return text + "]}";
}

/// Returns a text such as "last 0.0312, range 0.0211 to 2.31 · 60 of 600 points · 1 not finite".
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

/// Returns the figure of a chart, and appends its data for the script to `data`.
Html figure_of(const Chart& chart, size_t number, size_t most_points, std::string& data) {
  std::vector<Points> all;
  size_t shown = 0;
  for (const auto& [run, curve] : chart.curves) {
    all.push_back(curve->series.points(most_points));
    shown += all.back().size();
  }
  data += (number > 0 ? ",\n" : "") + json_of(chart, all);
  return fragment("chart", {{"number", number},
                            {"title", chart.title},
                            {"remark", remark_on(chart, shown)},
                            {"x name", chart.own_steps ? "step of that job" : "step"}});
}

Html row_of(const std::vector<double>& row, double greatest) {
  constexpr double kDarkest = 45;  // percent; keeps the text readable
  Html cells;
  for (const double value : row) {
    const double share = greatest > 0 && value > 0 ? std::min(1.0, value / greatest) : 0;
    cells += fragment("matrix cell",
                      {{"shade", std::lround(share * kDarkest)}, {"value", human_number(value)}});
  }
  return fragment("matrix row", {{"cells", cells}});
}

/// Returns the last value of each matrix of each run.
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
      figures += fragment("matrix", {{"title", matrix.title},
                                     {"remark", fmt::format("{}step {:.12g}", of, matrix.step)},
                                     {"rows", rows}});
    }
  return figures.empty() ? figures : fragment("matrices", {{"figures", figures}});
}

Html legend_of(const std::vector<RunData>& runs) {
  if (runs.size() < 2) return {};
  Html items;
  for (size_t i = 0; i < runs.size(); ++i)
    items += fragment(
        "legend item",
        {{"class", class_of_run(i)}, {"index", i}, {"name", Html::text(runs[i].name, 60)}});
  return fragment("legend", {{"items", items}});
}

constexpr size_t kMostRunsShown = 4;

/// Returns [{"step": 0, "from": -1, "to": 1, "counts": [...]}].
std::string json_of(const Distribution& found) {
  std::vector<std::string> histograms;
  for (const Histogram& each : found.histograms)
    histograms.push_back(fmt::format(R"({{"step":{},"from":{:.9g},"to":{:.9g},"counts":[{:.6g}]}})",
                                     each.step, each.from, each.to, fmt::join(each.counts, ",")));
  return "[" + join(histograms, ",") + "]";
}

std::string remark_on(const Distribution& found) {
  const size_t shown = found.histograms.size();
  return shown < found.events ? fmt::format("{} of {} events", shown, grouped_digits(found.events))
                              : counted(shown, "event");
}

Html figures_of(const Arrays& arrays) {
  Html figures;
  for (const Distribution& found : arrays.distributions)
    figures +=
        fragment("distribution", {{"name", found.name},
                                  {"kind", found.gradient ? fragment("gradient tag") : Html()},
                                  {"remark", remark_on(found)},
                                  {"histograms", Html::trusted(json_of(found))}});
  return figures;
}

Html figure_of(const Sample& sample) {
  Html values, picture;
  for (const auto& [step, text] : sample.values)
    values += fragment("values", {{"step", step}, {"text", Html::text(text, 600)}});
  if (!sample.picture.empty()) {
    constexpr size_t kWidth = 480;
    const size_t zoom = std::clamp<size_t>(kWidth / sample.picture_width, 1, 8);
    picture = fragment("sample picture", {{"uri", Html::trusted(sample.picture)},
                                          {"width", sample.picture_width * zoom},
                                          {"height", sample.picture_height * zoom},
                                          {"caption", sample.caption}});
  }
  return fragment(
      "sample",
      {{"name", sample.name}, {"type", sample.type}, {"picture", picture}, {"values", values}});
}

Html samples_of(const Arrays& arrays) {
  Html figures;
  for (const Sample& sample : arrays.samples) figures += figure_of(sample);
  return figures;
}

/// Returns the figures of each run, below the name of the run if there are several.
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
                : fragment("figures of run", {{"class", class_of_run(i)},
                                              {"open", shown == 0 ? " open" : ""},
                                              {"name", report.runs[i].name},
                                              {"figures", figures}});
    ++shown;
  }
  if (left_out > 0)
    body +=
        fragment("omitted", {{"text", fmt::format("{} left out", counted(left_out, "other run"))}});
  return body;
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
