// Reads the folders of watched and returned arrays. Histograms come from the CSV of stats sinks, or
// from arrays.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string_view>

#include "cli/report/page.h"
#include "cli/report/run_data.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/io/elements.h"
#include "runtime/io/npy.h"
#include "runtime/io/numpy_text.h"

namespace flow::cli::report {
namespace {

constexpr std::string_view kHeader = "step,epoch,mean,std,min,max,zeros,not_finite,bin0";
constexpr size_t kMin = 4, kMax = 5, kBins = 8;  // column numbers
constexpr size_t kLongestRow = 1 << 16;

/// Returns the numbers of a row, or nothing if the row contains anything else.
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

/// Removes the next row from the text and returns it without its line end, or returns nothing if
/// the row is incomplete.
std::optional<std::string_view> take_row(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == text.npos) return {};
  const std::string_view row = text.substr(0, end);
  text.remove_prefix(end + 1);
  return row;
}

constexpr size_t kMostEntries = 20'000, kMostDistributions = 40, kMostSamples = 24;
constexpr size_t kLongestArrayName = 120;

/// The files of one value or of its gradient.
struct ArrayFiles {
  std::string job;   // the called job; empty for the run's own job
  std::string name;  // "lenet/conv1"
  bool gradient = false, returned = false;
  fs::path stats, value, steps;
  std::map<int64_t, fs::path> of_steps;  // by step, for `layout: per_step`
};

/// The values of one array with their steps, from one file or from one file per step.
class Slices {
 public:
  explicit Slices(const ArrayFiles& files) {
    if (files.value.empty()) {
      for (const auto& [step, path] : files.of_steps) paths_.emplace_back(step, path);
      return;
    }
    all_.emplace(files.value);
    const Shape& shape = all_->view().shape;
    std::error_code error;
    if (fs::is_regular_file(files.steps, error)) steps_.emplace(files.steps);
    stacked_ = shape.rank() > 0 && steps_ && steps_->view().dtype == DType::kInt64 &&
               steps_->view().shape.rank() == 1 && steps_->view().shape[0] == shape[0];
  }

  size_t count() const {
    if (!all_) return paths_.size();
    return stacked_ ? static_cast<size_t>(all_->view().shape[0]) : 1;
  }

  /// Calls read(step, slice) for the i-th slice. Throws RunError if the file cannot be read.
  void read(size_t i, const std::function<void(int64_t, const ArrayView&)>& read) const {
    if (!all_) {
      const MappedNpy file(paths_[i].second);
      return file.recovering([&] { read(paths_[i].first, file.view()); });
    }
    const ArrayView& whole = all_->view();
    if (!stacked_) return all_->recovering([&] { read(0, whole); });
    ArrayView slice = whole;
    slice.shape = whole.shape.from(1);
    slice.data += i * slice.bytes();
    int64_t step = 0;
    steps_->recovering([&] { step = steps_->view().as<int64_t>()[i]; });
    all_->recovering([&] { read(step, slice); });
  }

 private:
  using MappedNpy = io::MappedNpy;
  std::optional<MappedNpy> all_, steps_;
  bool stacked_ = false;  // true if the file has one slice for each step
  std::vector<std::pair<int64_t, fs::path>> paths_;
};

/// Adds a file of the run directory to the group of files to which it belongs.
void sort_in(const fs::path& file, const fs::path& below,
             std::map<std::pair<std::string, bool>, ArrayFiles>& found) {
  std::vector<std::string> parts;
  for (const fs::path& part : below.parent_path()) parts.push_back(part.string());
  std::string job;
  if (parts.size() > 2 && parts[0] == "also") {
    job = parts[1];
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  if (parts.size() < 2 || (parts[0] != "watch" && parts[0] != "returns")) return;
  std::string name = below.filename().string();
  const bool gradient = name.starts_with("diff");
  if (gradient) name.erase(0, name.starts_with("diff_") ? 5 : 4);
  fs::path ArrayFiles::*kind = nullptr;
  const auto step = name.ends_with(".npy") ? whole_number(name.substr(0, name.size() - 4))
                                           : std::optional<int64_t>();
  if (name == "stats.csv")
    kind = &ArrayFiles::stats;
  else if (name == (gradient ? ".npy" : "value.npy"))
    kind = &ArrayFiles::value;
  else if (name == "steps.npy")
    kind = &ArrayFiles::steps;
  else if (!step)
    return;
  ArrayFiles& files = found[{below.parent_path().string(), gradient}];
  files.job = job;
  files.returned = parts[0] == "returns";
  files.gradient = gradient;
  files.name = join(std::span(parts).subspan(1), "/");
  if (kind)
    files.*kind = file;
  else
    files.of_steps[*step] = file;
}

std::vector<ArrayFiles> list_arrays(RunData& run) {
  std::map<std::pair<std::string, bool>, ArrayFiles> found;
  size_t entries = 0;
  for (const char* part : {"returns", "watch", "also"}) {
    std::error_code error;
    const fs::path folder = run.directory / part;
    const std::string problem =
        fs::is_symlink(folder, error) ? link_problem(folder, run.directory) : "";
    if (!problem.empty()) {
      run.note(fmt::format("left out: {} is {}", folder.string(), problem));
      continue;
    }
    fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied,
                                          error);
    for (; !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
      if (++entries > kMostEntries) break;
      std::error_code gone;
      if (each->is_regular_file(gone) && !each->is_symlink(gone))
        sort_in(each->path(), each->path().lexically_relative(run.directory), found);
    }
  }
  if (entries > kMostEntries)
    run.note(fmt::format("more than {} files of arrays: the others are left out",
                         grouped_digits(kMostEntries)));
  std::vector<ArrayFiles> list;
  for (auto& [key, each] : found) list.push_back(std::move(each));
  return list;
}

std::string first_values(const ArrayView& array) {
  constexpr int64_t kMost = 16;
  std::string text;
  for (int64_t i = 0; i < std::min(kMost, array.shape.elements()); ++i)
    text += (i > 0 ? " " : "") + io::format_element(array, i);
  return array.shape.elements() > kMost ? text + " …" : text;
}

class ArrayReader {
 public:
  explicit ArrayReader(RunData& run) : run_(run) {}

  void read(const ArrayFiles& files) try {
    if (!files.stats.empty()) return add(named(read_stats(files.stats), files));
    if (files.value.empty() && files.of_steps.empty()) return;
    const Slices slices(files);
    if (slices.count() == 0) return;
    int64_t elements = 0;
    slices.read(0, [&](int64_t, const ArrayView& slice) { elements = slice.shape.elements(); });
    if (elements == 1 && slices.count() > 1) return add_curve(files, slices);
    if (files.returned) return add_sample(files, slices);
    Distribution found;
    found.events = slices.count();
    for (size_t i = 0; i < std::min<size_t>(kMostHistograms, found.events); ++i)
      slices.read(spread(i, kMostHistograms, found.events),
                  [&](int64_t step, const ArrayView& slice) {
                    found.histograms.push_back(histogram_of(slice, step));
                  });
    std::erase_if(found.histograms, [](const Histogram& each) { return each.counts.empty(); });
    add(named(std::move(found), files));
  } catch (const RunError& error) {
    run_.note(clipped(error.what(), kMostText));
  }

  Arrays take() {
    const auto say = [&](size_t left_out, const char* what, size_t most) {
      if (left_out > 0)
        run_.note(fmt::format("{} left out: the report shows the first {}", counted(left_out, what),
                              most));
    };
    say(distributions_left_out_, "watched tensor", kMostDistributions);
    say(samples_left_out_, "returned array", kMostSamples);
    return std::move(arrays_);
  }

 private:
  static std::string shown_name(const ArrayFiles& files) {
    return clipped(files.job.empty() ? files.name : files.job + ": " + files.name,
                   kLongestArrayName);
  }

  static Distribution named(Distribution found, const ArrayFiles& files) {
    found.name = shown_name(files);
    found.gradient = files.gradient;
    return found;
  }

  void add(Distribution found) {
    if (found.histograms.empty()) return;
    if (arrays_.distributions.size() == kMostDistributions)
      ++distributions_left_out_;
    else
      arrays_.distributions.push_back(std::move(found));
  }

  void add_curve(const ArrayFiles& files, const Slices& slices) {
    constexpr size_t kMostPoints = 100'000;
    Curve curve;
    curve.job = clipped(files.job, kLongestArrayName);
    curve.label = clipped(files.name, kLongestArrayName) + (files.gradient ? " (gradient)" : "");
    curve.own_steps = !files.job.empty();
    const auto same = [&](const Curve& other) { return other.title() == curve.title(); };
    if (std::ranges::any_of(run_.curves, same)) return;  // the losses are already among the metrics
    for (size_t i = 0; i < std::min(kMostPoints, slices.count()); ++i)
      slices.read(i, [&](int64_t step, const ArrayView& slice) {
        if (slice.shape.elements() != 1) return;  // files of steps may differ in shape
        io::visit_elements(slice, [&](auto elements) {
          curve.series.add(static_cast<double>(step), static_cast<double>(elements[0]));
        });
      });
    if (slices.count() > kMostPoints)
      run_.note(fmt::format("{}: only the first {} of {} values", curve.title(),
                            grouped_digits(kMostPoints), grouped_digits(slices.count())));
    run_.curves.push_back(std::move(curve));
  }

  void add_sample(const ArrayFiles& files, const Slices& slices) {
    if (arrays_.samples.size() == kMostSamples) {
      ++samples_left_out_;
      return;
    }
    Sample sample;
    sample.name = shown_name(files);
    const auto add_values = [&](int64_t step, const ArrayView& slice) {
      sample.type = fmt::format("{} {}", name_of(slice.dtype), io::shape_tuple(slice.shape));
      sample.values.emplace_back(fmt::format("step {}", step), first_values(slice));
    };
    if (slices.count() > 1) slices.read(0, add_values);
    slices.read(slices.count() - 1, [&](int64_t step, const ArrayView& slice) {
      add_values(step, slice);
      draw_pictures(slice, sample);
    });
    arrays_.samples.push_back(std::move(sample));
  }

  RunData& run_;
  Arrays arrays_;
  size_t distributions_left_out_ = 0, samples_left_out_ = 0;
};

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
    // The range is halved, because the full range may overflow.
    const double half = found.to / 2 - found.from / 2;
    for (size_t i = 0; i < elements.size(); i += stride) {
      const auto x = static_cast<double>(elements[i]);
      if (!std::isfinite(x)) continue;
      // The share is clamped, because the file may change while it is read.
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
      if (!row) break;  // the file has changed since its rows were counted
      if (at != spread(next, kMostHistograms, found.events)) continue;
      ++next;
      if (auto histogram = histogram_of_row(*row))
        found.histograms.push_back(std::move(*histogram));
    }
  });
  return found;
}

Arrays read_arrays(RunData& run) {
  ArrayReader reader(run);
  for (const ArrayFiles& files : list_arrays(run)) reader.read(files);
  return reader.take();
}

}  // namespace flow::cli::report
