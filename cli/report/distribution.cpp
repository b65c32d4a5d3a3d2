// Histograms from the CSV of stats sinks, and from arrays.
#include "cli/report/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/io/elements.h"

namespace flow::cli::report {
namespace {

constexpr std::string_view kHeader = "step,epoch,mean,std,min,max,zeros,not_finite,bin0";
constexpr size_t kMin = 4, kMax = 5, kBins = 8;  // columns
constexpr size_t kLongestRow = 1 << 16;

/// The numbers of a row; nothing where it has something else.
std::optional<std::vector<double>> numbers_of(std::string_view row) {
  std::vector<double> numbers;
  if (row.size() > kLongestRow) return {};
  for (const char* at = row.data(); at <= row.data() + row.size();) {
    double number = 0;
    const auto [end, error] = std::from_chars(at, row.data() + row.size(), number);
    if (error != std::errc() && error != std::errc::result_out_of_range) return {};
    if (end != row.data() + row.size() && *end != ',') return {};
    numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

std::optional<Histogram> histogram_of_row(std::string_view row) {
  const auto numbers = numbers_of(row);
  if (!numbers || numbers->size() <= kBins) return {};
  const double from = (*numbers)[kMin], to = (*numbers)[kMax], step = (*numbers)[0];
  constexpr double kMost = 1e18;
  if (!std::isfinite(from) || !std::isfinite(to) || from > to || !(std::abs(step) <= kMost))
    return {};
  Histogram found{static_cast<int64_t>(step), from, to, {}};
  for (size_t i = kBins; i < numbers->size(); ++i) {
    if (!((*numbers)[i] >= 0 && (*numbers)[i] <= kMost)) return {};
    found.counts.push_back((*numbers)[i]);
  }
  return found;
}

/// The next row of a text, without its end, which is taken off; nothing where it is cut off.
std::optional<std::string_view> take_row(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == text.npos) return {};
  const std::string_view row = text.substr(0, end);
  text.remove_prefix(end + 1);
  return row;
}

}  // namespace

size_t spread(size_t i, size_t most, size_t count) {
  return count <= most ? i : i * (count - 1) / (most - 1);
}

Histogram histogram_of(const ArrayView& array, int64_t step) {
  constexpr size_t kBinCount = 40;
  constexpr int64_t kMostElements = 1 << 18;
  Histogram found{step, 0, 0, {}};
  io::visit_elements(array, [&](auto elements) {
    const auto stride = static_cast<size_t>(array.shape.elements() / kMostElements + 1);
    bool any = false;
    for (size_t i = 0; i < elements.size(); i += stride) {
      const auto x = static_cast<double>(elements[i]);
      if (!std::isfinite(x)) continue;
      found.from = any ? std::min(found.from, x) : x;
      found.to = any ? std::max(found.to, x) : x;
      any = true;
    }
    if (!any) return;
    found.counts.assign(kBinCount, 0);
    const double half = found.to / 2 - found.from / 2;  // the whole may overflow
    for (size_t i = 0; i < elements.size(); i += stride) {
      const auto x = static_cast<double>(elements[i]);
      if (!std::isfinite(x)) continue;
      // Clamped: the file may change meanwhile.
      const double share = half > 0 ? std::clamp((x / 2 - found.from / 2) / half, 0.0, 1.0) : 0.5;
      ++found.counts[std::min(kBinCount - 1, static_cast<size_t>(share * kBinCount))];
    }
  });
  return found;
}

Distribution read_stats(const fs::path& path) {
  Distribution found;
  const MappedFile file(path);
  file.recovering([&] {
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const auto rows = static_cast<uint64_t>(std::ranges::count(text, '\n'));
    const auto header = take_row(text);
    if (!header || !header->starts_with(kHeader))
      throw RunError(fmt::format("{} is not the table of a stats sink", path.string()));
    found.events = rows - 1;
    const size_t wanted = std::min<size_t>(kMostHistograms, found.events);
    size_t next = 0;
    for (size_t at = 0; next < wanted; ++at) {
      const auto row = take_row(text);
      if (!row) break;  // the file has changed
      if (at != spread(next, kMostHistograms, found.events)) continue;
      ++next;
      if (auto histogram = histogram_of_row(*row))
        found.histograms.push_back(std::move(*histogram));
    }
  });
  return found;
}

}  // namespace flow::cli::report
