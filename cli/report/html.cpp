// Fills fragments of page/fragments.html, finds round numbers along axes, and draws axes and paths.
#include "cli/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::cli::report {
namespace {

/// Each fragment follows a line `<!-- NAME -->`.
std::map<std::string_view, std::string_view> read_fragments() {
  constexpr std::string_view kBegin = "\n<!-- ", kEnd = " -->\n";
  std::map<std::string_view, std::string_view> fragments;
  const std::string_view text = page::kFragments;
  for (size_t at = text.find(kBegin); at != text.npos;) {
    const size_t name = at + kBegin.size(), name_end = text.find(kEnd, name);
    FLOW_CHECK(name_end != text.npos, "a comment of fragments.html does not end");
    const size_t body = name_end + kEnd.size();
    at = text.find(kBegin, body - 1);
    fragments[text.substr(name, name_end - name)] =
        text.substr(body, (at == text.npos ? text.size() : at + 1) - body);
  }
  return fragments;
}

std::string_view find_fragment(std::string_view name) {
  static const std::map<std::string_view, std::string_view> kFragments = read_fragments();
  const auto found = kFragments.find(name);
  FLOW_CHECK(found != kFragments.end(), "fragments.html has no {}", name);
  return found->second;
}

}  // namespace

std::string clipped(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = 0;
  while (end < text.size()) {
    const size_t next = end + character_at(text, end).bytes;
    if (next > most) break;
    end = next;
  }
  return std::string(text.substr(0, end)) + "…";
}

Html Html::text(std::string_view text, size_t most) { return trusted(xml(clipped(text, most))); }

Html Html::trusted(std::string markup) {
  Html html;
  html.markup_ = std::move(markup);
  return html;
}

Html fragment(std::string_view name, const Values& values) {
  std::string out;
  std::string_view rest = find_fragment(name);
  for (size_t open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    const size_t close = rest.find("}}", open);
    FLOW_CHECK(close != rest.npos, "a name of {} does not end", name);
    const std::string_view key = rest.substr(open + 2, close - open - 2);
    out += rest.substr(0, open);
    const Html* found = nullptr;
    for (const auto& [each, value] : values)
      if (each == key) found = &value;
    FLOW_CHECK(found, "{} needs a value of {}", name, key);
    out += found->str();
    rest.remove_prefix(close + 2);
  }
  return Html::trusted(out + std::string(rest));
}

std::string class_of_run(size_t run) {
  constexpr size_t kColors = 8, kDashes = 4;
  return fmt::format("c{} d{}", run % kColors, run / kColors % kDashes);
}

Html section(std::string_view id, std::string_view title, std::string_view remark, Html body) {
  return fragment("section", {{"id", Html::text(id)},
                              {"title", Html::text(title)},
                              {"remark", Html::text(remark)},
                              {"body", std::move(body)}});
}

namespace {

/// A tenth of a thousandth of the plot is enough.
std::string coordinate(double share) { return fmt::format("{:.5g}", share * kDrawing); }

/// A line of no length, which has round ends: a dot.
constexpr const char* kNoLength = "h0";

std::string place_of(const Series::Point& point, const Plot& plot) {
  return coordinate(plot.x.place(point.x)) + ' ' + coordinate(1 - plot.y.place(point.y));
}

}  // namespace

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
