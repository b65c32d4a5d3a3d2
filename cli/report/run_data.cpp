// Reads the small files of a run directory, and reads metrics.jsonl line by line while thinning out
// its series.
#include "cli/report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "cli/report/page.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/serialize.h"

namespace flow::cli::report {
namespace {

void read_record(RunData& run) {
  const auto text = read_bounded(run.directory / exec::kRunRecord, kLargestRecord, run);
  if (!text) return;
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_object())
    run.record = compare::facts_of(json);
  else
    run.note("run.json is damaged: it is not a JSON object");
}

/// Returns true if another job of the plan calls this one.
bool is_called(const plan::Plan& plan, const plan::Job& job) {
  return std::ranges::any_of(plan.jobs, [&](const plan::Job& other) {
    return std::ranges::count(other.run.also, job.name, &plan::SubJob::job) > 0;
  });
}

/// Returns the job that ran according to run.json. A killed run has no run.json: then returns the
/// only job of the plan or, if the metrics contain a loss, the only train job that no other job
/// calls. Returns null if the job is unknown.
const plan::Job* job_that_ran(const RunData& run) {
  const std::vector<plan::Job>& jobs = run.plan->jobs;
  const plan::Job* found = nullptr;
  if (run.record) {
    const auto job = std::ranges::find(jobs, run.record->job, &plan::Job::name);
    return job == jobs.end() ? nullptr : &*job;
  }
  if (jobs.size() == 1) return &jobs.front();
  if (std::ranges::count(run.curves, "loss", &Curve::title) == 0) return nullptr;
  for (const plan::Job& job : jobs) {
    if (!job.train || is_called(*run.plan, job)) continue;
    if (found) return nullptr;
    found = &job;
  }
  return found;
}

void read_plan(RunData& run) {
  const fs::path path = run.directory / exec::kPlanFile;
  const auto text = read_bounded(path, kLargestPlan, run);
  if (!text) return run.note("no network and no memory: there is no plan.json to read");
  try {
    run.plan = plan::from_json(*text, "plan.json");
  } catch (const RunError& error) {
    return run.note(fmt::format("no network and no memory: {}", error.what()));
  }
  run.job = job_that_ran(run);
  if (!run.job) run.note("no network and no memory: it is not known which job of the plan ran");
}

void require_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error) && !error)
    throw RequestError(fmt::format("no such directory: {}", directory.string()),
                       "name the directory of a run, such as runs/lenet-train-001");
  if (!fs::is_directory(directory, error))
    throw RequestError(fmt::format("{} is not a directory", directory.string()),
                       "name the directory of a run");
  const auto has = [&](const fs::path& in, const char* name) {
    return fs::exists(fs::symlink_status(in / name, error));
  };
  for (const char* name : {exec::kPlanFile, exec::kRunRecord, exec::kMetricsFile})
    if (has(directory, name)) return;
  std::string hint = "name the directory that flowrun wrote to";
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    if (has(entry.path(), exec::kPlanFile))
      hint = fmt::format("it has directories of runs: name {}/*", directory.string());
  throw RequestError(fmt::format("{} is not the directory of a run: it has no {}",
                                 directory.string(), exec::kPlanFile),
                     hint);
}

constexpr size_t kMostGroups = 2048;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kLongestLine = 1 << 16, kMostCurves = 60;

/// Returns a number, converts a bool to 0 or 1, and returns NaN, a gap, for anything else.
double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  return std::numeric_limits<double>::quiet_NaN();
}

/// Returns the numbers of a small array with one or two axes, or nothing for any other array.
std::vector<std::vector<double>> matrix_of(const Json& json) {
  constexpr size_t kMost = 32;
  const auto row_of = [](const Json& values) {
    std::vector<double> row;
    for (const Json& value : values) row.push_back(number_of(value));
    return row;
  };
  const auto fits = [](const Json& array) {
    return array.is_array() && !array.empty() && array.size() <= kMost;
  };
  if (!fits(json)) return {};
  if (!json.front().is_array()) return {row_of(json)};
  std::vector<std::vector<double>> rows;
  for (const Json& each : json) {
    if (!fits(each) || each.size() != json.front().size()) return {};
    rows.push_back(row_of(each));
  }
  return rows;
}

/// The suffix for the label of a value that the run monitors.
constexpr const char* kFollowed = " (monitored)";

class MetricsReader {
 public:
  explicit MetricsReader(RunData& run) : run_(run) {}

  void read(std::string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      ++line_;
      add_line(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  void finish() {
    if (wrong_ > 0)
      run_.note(fmt::format(
          "metrics.jsonl: {} not a row of metrics, and left out; the first is line {}",
          wrong_ == 1 ? "1 line is" : fmt::format("{} lines are", wrong_), first_wrong_));
    if (left_out_ > 0)
      run_.note(
          fmt::format("metrics.jsonl: more than {} different values; {} of the others left "
                      "out",
                      kMostCurves, counted(left_out_, "row")));
    for (auto& [key, found] : found_) {
      Curve& curve = found.curve;
      curve.own_steps = found.repeats;
      if (found.repeats) curve.series = std::move(found.by_own_steps);
    }
    if (arrays_left_out_ > 0)
      run_.note(fmt::format("metrics.jsonl: {} left out, with more than 32 rows or columns",
                            counted(arrays_left_out_, "matrix value")));
    for (auto& [key, matrix] : matrices_) run_.matrices.push_back(std::move(matrix));
    for (const auto& key : order_) run_.curves.push_back(std::move(found_.at(key).curve));
  }

 private:
  using Key = std::pair<std::string, std::string>;
  struct Found {
    Curve curve;
    Series by_own_steps;
    std::optional<double> last_step;
    bool repeats = false;  // true if one step of the main job has several values
  };

  void add_line(std::string_view line) {
    if (line.empty()) return;
    if (line.size() > kLongestLine) return refuse();
    const Json row = Json::parse(line, nullptr, false);
    const auto step = row.is_object() ? row.find("step") : row.end();
    if (!row.is_object() || step == row.end() || !step->is_number()) return refuse();
    const std::string job =
        row.contains("job_step") ? plan::text_in(row, "job") : "";  // empty for the run's own job
    if (const auto value = row.find("value"); value != row.end()) {
      std::string label = plan::text_in(row, "label");
      if (label.empty()) label = plan::text_in(row, "name");
      const std::string of_job = plan::text_in(row, "job") + ".";  // prefix of a monitored value
      if (label.starts_with(of_job)) label = label.substr(of_job.size()) + kFollowed;
      return add(row, job, job.empty() ? label + reduced(label) : label, *value);
    }
    for (const std::string_view key : plan::kStepNumbers)
      if (const auto value = row.find(key); value != row.end())
        add(row, job, std::string(key), *value);
  }

  /// Returns a suffix if a print sink reduced a value that the rows of steps also contain.
  static const char* reduced(const std::string& label) {
    return std::ranges::count(plan::kStepNumbers, label) > 0 ? " (reduced)" : "";
  }

  void add(const Json& row, const std::string& job, const std::string& label, const Json& value) {
    constexpr size_t kLongestName = 80;
    const Key key{clipped(job, kLongestName), clipped(label, kLongestName)};
    if (value.is_array()) return add_matrix(key, row["step"].get<double>(), value);
    auto found = found_.find(key);
    if (found == found_.end()) {
      if (found_.size() == kMostCurves) {
        ++left_out_;
        return;
      }
      found = found_.try_emplace(key).first;
      found->second.curve.job = key.first;
      found->second.curve.label = key.second;
      order_.push_back(key);
    }
    Found& at = found->second;
    const double step = row["step"].get<double>(), number = number_of(value);
    const auto own = row.find("job_step");
    // If a print sink also wrote this value, the second row of a step contains the monitored value.
    if (own == row.end() && at.last_step == step && !label.ends_with(kFollowed))
      return add(row, job, label + kFollowed, value);
    at.repeats |= own != row.end() && at.last_step == step;
    at.last_step = step;
    at.curve.series.add(step, number);
    if (own != row.end() && own->is_number()) at.by_own_steps.add(own->get<double>(), number);
  }

  void add_matrix(const Key& key, double step, const Json& value) {
    constexpr size_t kMost = 12;
    if (matrices_.size() == kMost && !matrices_.contains(key)) return;
    auto rows = matrix_of(value);
    if (rows.empty())
      ++arrays_left_out_;
    else
      matrices_[key] = {Curve{key.first, key.second}.title(), step, std::move(rows)};
  }

  void refuse() {
    if (wrong_++ == 0) first_wrong_ = line_;
  }

  RunData& run_;
  std::map<Key, Found> found_;
  std::vector<Key> order_;
  std::map<Key, Matrix> matrices_;
  uint64_t arrays_left_out_ = 0;
  uint64_t line_ = 0, wrong_ = 0, first_wrong_ = 0, left_out_ = 0;
};

}  // namespace

std::optional<std::string> read_bounded(const fs::path& path, uint64_t most, RunData& run) {
  std::error_code unknown;
  if (!fs::exists(fs::symlink_status(path, unknown))) return {};
  try {
    return read_inside(run.directory, path, most);
  } catch (const RunError& failure) {
    run.note(fmt::format("left out: {}", failure.what()));
    return {};
  }
}

RunData read_run(const fs::path& directory) {
  require_run(directory);
  RunData run;
  run.directory = directory;
  read_record(run);
  read_metrics(directory / exec::kMetricsFile, run);
  read_plan(run);
  return run;
}

void Series::add(Group& group, const Point& point) {
  if (!std::isfinite(point.y)) {
    if (!group.has_gap) group.gap_x = point.x;
    group.has_gap = true;
    return;
  }
  if (!group.has_any) {
    group.first = group.second = point;
    group.has_any = true;
    return;
  }
  Point& least = group.first.y <= group.second.y ? group.first : group.second;
  Point& greatest = group.first.y <= group.second.y ? group.second : group.first;
  // The newer point becomes the second. If it replaces the first point, the other extreme becomes
  // the first.
  if (point.y < least.y) {
    group.first = greatest;
    group.second = point;
  } else if (point.y > greatest.y) {
    group.first = least;
    group.second = point;
  }
}

void Series::merge(Group& group, const Group& next) {
  if (next.has_any) {
    add(group, next.first);
    add(group, next.second);
  }
  if (next.has_gap && !group.has_gap) group.gap_x = next.gap_x;
  group.has_gap |= next.has_gap;
}

std::vector<Series::Group> Series::halved(const std::vector<Group>& groups) {
  std::vector<Group> fewer;
  fewer.reserve(groups.size() / 2 + 1);
  for (size_t i = 0; i < groups.size(); i += 2) {
    fewer.push_back(groups[i]);
    if (i + 1 < groups.size()) merge(fewer.back(), groups[i + 1]);
  }
  return fewer;
}

void Series::add(double x, double y) {
  if (count_ % stride_ == 0) {
    if (groups_.size() == kMostGroups) {
      groups_ = halved(groups_);
      stride_ *= 2;
    }
    groups_.emplace_back();
  }
  const Point point{x, y};
  add(groups_.back(), point);
  ++count_;
  if (!std::isfinite(y)) {
    ++gaps_;
    return;
  }
  last_ = point;
  if (!least_ || y < least_->y) least_ = point;
  if (!greatest_ || y > greatest_->y) greatest_ = point;
}

std::vector<Series::Point> Series::points(size_t most) const {
  std::vector<Group> groups = groups_;
  const bool exact = stride_ == 1 && count_ <= most;
  while (!exact && groups.size() > 1 && groups.size() * 2 > most) groups = halved(groups);
  std::vector<Point> points;
  for (const Group& group : groups) {
    if (group.has_any) points.push_back(group.first);
    if (group.has_any && (group.second.x != group.first.x || group.second.y != group.first.y))
      points.push_back(group.second);
    if (group.has_gap && (exact || !group.has_any))
      points.push_back({group.gap_x, std::numeric_limits<double>::quiet_NaN()});
  }
  // A curve begins at its first value and ends at its last.
  if (!exact && last_ && !points.empty() && points.back().x != last_->x) points.push_back(*last_);
  return points;
}

void read_metrics(const fs::path& path, RunData& run) {
  std::error_code unknown;
  if (!fs::exists(fs::symlink_status(path, unknown))) return;
  try {
    require_inside(run.directory, path);
    const MappedFile file(path);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (text.size() > kMostBytes) {
      run.note(fmt::format("metrics.jsonl has {}; only the first {} are read",
                           human_bytes(text.size()), human_bytes(kMostBytes)));
      text = text.substr(0, kMostBytes);
    }
    MetricsReader reader(run);
    file.recovering([&] { reader.read(text); });
    reader.finish();
  } catch (const RunError& failure) {
    run.note(failure.what());
  }
}

}  // namespace flow::cli::report
