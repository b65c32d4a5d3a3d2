// Statistics of values as lines of CSV.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/io/elements.h"
#include "runtime/io/line_log.h"
#include "runtime/io/sink.h"

namespace flow::io {
namespace {

/// Of the finite elements. Without any, all but `not_finite` are NaN.
struct Statistics {
  int64_t not_finite = 0;
  double zeros = std::numeric_limits<double>::quiet_NaN();  // as a share
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = mean, min = mean, max = mean;
};

/// The standard deviation is that of all elements: divided by their number, in a second pass.
template <typename Elements>
Statistics statistics_of(const Elements& elements) {
  Statistics found;
  int64_t finite = 0, zeros = 0;
  double sum = 0, squares = 0;
  for (const auto element : elements) {
    const auto x = static_cast<double>(element);
    if (!std::isfinite(x)) continue;
    found.min = finite == 0 ? x : std::min(found.min, x);
    found.max = finite == 0 ? x : std::max(found.max, x);
    if (x == 0) ++zeros;
    ++finite;
    sum += x;
  }
  found.not_finite = static_cast<int64_t>(elements.size()) - finite;
  if (finite == 0) return found;
  const auto count = static_cast<double>(finite);
  found.zeros = static_cast<double>(zeros) / count;
  found.mean = sum / count;
  for (const auto element : elements) {
    const auto x = static_cast<double>(element);
    if (std::isfinite(x)) squares += (x - found.mean) * (x - found.mean);
  }
  found.std = std::sqrt(squares / count);
  return found;
}

/// Adds the finite elements to bins of equal width. The last bin includes the maximum, and equal
/// elements are all in the first.
template <typename Elements>
void fill_bins(const Elements& elements, const Statistics& found, std::vector<int64_t>& bins) {
  std::ranges::fill(bins, 0);
  const auto last = static_cast<double>(bins.size() - 1);
  // Halved: the range of two doubles may be none.
  const double range = found.max / 2 - found.min / 2;
  for (const auto element : elements) {
    const auto x = static_cast<double>(element);
    if (!std::isfinite(x)) continue;
    const double share = range > 0 ? (x / 2 - found.min / 2) / range : 0;
    ++bins[static_cast<size_t>(
        std::clamp(std::floor(share * static_cast<double>(bins.size())), 0.0, last))];
  }
}

class StatsSink : public Sink {
 public:
  StatsSink(const plan::StatsSink& options, const SinkContext& context)
      : log_((make_folders(context.directory), stats_file(context.directory, context.gradient)),
             context.resume_from > 0 ? kHeaderLines + context.delivered_before : 0),
        bins_(static_cast<size_t>(options.bins)) {
    if (log_.length().rows > 0) return;
    std::string header = "step,epoch,mean,std,min,max,zeros,not_finite";
    for (size_t i = 0; i < bins_.size(); ++i) header += fmt::format(",bin{}", i);
    log_.write(std::move(header));
  }

  void deliver(const Event& event) override {
    visit_elements(event.value, [&](auto elements) {
      const Statistics found = statistics_of(elements);
      fill_bins(elements, found, bins_);
      std::string line =
          fmt::format("{},{},{},{},{},{},{},{}", event.step, event.epoch, found.mean, found.std,
                      found.min, found.max, found.zeros, found.not_finite);
      for (const int64_t bin : bins_) line += fmt::format(",{}", bin);
      log_.write(std::move(line));
    });
  }

  void list_files(std::vector<GrowingFile>& files) const override { files.push_back(log_.file()); }
  void close() override { log_.close(); }

 private:
  static constexpr int64_t kHeaderLines = 1;

  LineLog log_;
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
