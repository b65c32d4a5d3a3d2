// Computes moments and extremes of values in float64, and writes them as lines of CSV.
#include "runtime/io/sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::io {

namespace {

/// Calls add(x) with each finite element. Returns the number of elements that are not finite.
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

namespace {

/// Counts the finite elements in bins of equal width. The last bin includes the maximum. If all
/// elements are equal, they are in the first bin.
template <typename Elements>
void fill_bins(const Elements& elements, const Statistics& found, std::vector<int64_t>& bins) {
  std::ranges::fill(bins, 0);
  const auto last = static_cast<double>(bins.size() - 1);
  // Both are halved, because their difference may exceed the largest double.
  const double range = found.max / 2 - found.min / 2;
  for (const auto element : elements) {
    const auto x = static_cast<double>(element);
    if (!std::isfinite(x)) continue;
    const double share = range > 0 ? (x / 2 - found.min / 2) / range : 0;
    ++bins[static_cast<size_t>(
        std::clamp(std::floor(share * static_cast<double>(bins.size())), 0.0, last))];
  }
}

/// Returns the number of lines of an earlier run that are kept: the header, and the lines of steps
/// before the resumed one.
int64_t lines_before(const SinkContext& context) {
  const fs::path path = stats_file(context.directory, context.gradient);
  std::error_code missing;
  if (!fs::exists(path, missing)) return 0;
  const std::string text = read_text(path);
  if (const auto bytes = context.recorded_bytes(path))
    return std::ranges::count(std::string_view(text).substr(0, *bytes), '\n');
  const std::vector<std::string> lines = split(text, '\n');
  int64_t count = 1;
  while (static_cast<size_t>(count) < lines.size()) {
    const std::string& line = lines[static_cast<size_t>(count)];
    const auto step = whole_number(line.substr(0, line.find(',')));
    if (!step || *step >= context.resume_from) break;
    ++count;
  }
  return count;
}

class StatsSink : public Sink {
 public:
  StatsSink(const plan::StatsSink& options, const SinkContext& context)
      : log_((make_folders(context.directory), stats_file(context.directory, context.gradient)),
             context.resume_from > 0 ? lines_before(context) : 0),
        label_(context.label),
        keep_histogram_(context.keep_histogram),
        bins_(static_cast<size_t>(options.bins)) {
    if (log_.length().rows > 0) return;
    const auto columns = std::span(plan::kStatistics).first(plan::kStatisticColumns);
    std::string header = fmt::format("step,epoch,{}", fmt::join(columns, ","));
    for (size_t i = 0; i < bins_.size(); ++i) header += fmt::format(",bin{}", i);
    log_.write(std::move(header));
  }

  void deliver(const Event& event) override {
    const Statistics found = statistics_of(event.value);
    visit_elements(event.value, [&](auto elements) { fill_bins(elements, found, bins_); });
    std::string line = fmt::format("{},{},{},{},{},{},{},{}", event.step, event.epoch, found.mean,
                                   found.std, found.min, found.max, found.zeros, found.not_finite);
    for (const int64_t bin : bins_) line += fmt::format(",{}", bin);
    log_.write(std::move(line));
    if (keep_histogram_) keep_histogram_({label_, event.step, found, bins_});
  }

  void list_files(std::vector<GrowingFile>& files) const override { files.push_back(log_.file()); }
  void close() override { log_.close(); }

 private:
  LineLog log_;
  const std::string label_;
  const std::function<void(const Histogram&)> keep_histogram_;
  std::vector<int64_t> bins_;
};

}  // namespace

fs::path stats_file(const fs::path& directory, bool gradient) {
  return directory / (gradient ? "diff_stats.csv" : "stats.csv");
}

std::unique_ptr<Sink> make_stats_sink(const plan::StatsSink& options, const SinkContext& context) {
  return std::make_unique<StatsSink>(options, context);
}

}  // namespace flow::io
