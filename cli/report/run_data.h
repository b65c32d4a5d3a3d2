// What a report knows of a run: what its directory says, as far as it can be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli::report {

/// One number over any number of steps, in a bounded number of points. Keeps the least and the
/// greatest value of runs of neighboring points, so that no spike is lost. A value that is not
/// finite is a gap.
class Series {
 public:
  struct Point {
    double x = 0, y = 0;
  };

  void add(double x, double y);

  /// At most `most` points and the last one, in their order. A gap is a point whose y is NaN.
  std::vector<Point> points(size_t most) const;
  uint64_t count() const { return count_; }
  uint64_t gaps() const { return gaps_; }
  /// Of the finite values; nothing where there is none.
  std::optional<Point> last() const { return last_; }
  std::optional<Point> least() const { return least_; }
  std::optional<Point> greatest() const { return greatest_; }

 private:
  struct Group {
    Point first, second;  // the least and the greatest, whichever came first
    bool has_any = false, has_gap = false;
    double gap_x = 0;
  };
  static void add(Group& group, const Point& point);
  static void merge(Group& group, const Group& next);
  static std::vector<Group> halved(const std::vector<Group>& groups);

  std::vector<Group> groups_;
  uint64_t stride_ = 1, count_ = 0, gaps_ = 0;
  std::optional<Point> last_, least_, greatest_;
};

/// One number of a run over its steps.
struct Curve {
  std::string job;         // empty: the job itself
  std::string label;       // "loss", "accuracy"
  bool own_steps = false;  // x counts steps of that job, not of the one that calls it
  Series series = {};

  std::string title() const { return job.empty() || job == label ? label : job + ": " + label; }
};

/// The last value of a metric that is an array, such as a confusion matrix.
struct Matrix {
  std::string title;
  double step = 0;
  std::vector<std::vector<double>> rows;
};

/// run.json. Of a run that was killed, or still runs, there is none.
struct Record {
  std::string job, source, device, instruction_set, version, host, started, stop_reason, error;
  std::vector<std::string> load = {};
  std::vector<std::string> overrides = {};  // "--set vars.lr=0.1"
  std::map<std::string, std::string> libraries = {};
  std::map<std::string, std::string> data = {};  // "train.x": "60000 rows, 3f0c..."
  std::optional<int64_t> seed, threads, first_step, last_step, epochs, exit_status;
  std::optional<int64_t> ranks = {};
  std::optional<int64_t> arena_bytes, peak_memory_bytes;
  std::optional<double> seconds = {};
};

struct RunData {
  fs::path directory;
  std::string name;  // short, and another one for each run of a report
  std::optional<Record> record;
  std::optional<plan::Plan> plan;
  const plan::Job* job = nullptr;  // of the plan: that ran
  std::vector<Curve> curves;
  std::vector<Matrix> matrices;
  std::vector<std::string> notes;  // what could not be read, or was left out

  void note(std::string text) { notes.push_back(std::move(text)); }
};

/// Reads run.json, plan.json and metrics.jsonl. RequestError where the directory is not one of a
/// run.
RunData read_run(const fs::path& directory);

/// The text of a regular file. Nothing if it is absent; nothing and a note in `run` if it is larger
/// than `most` bytes, not a file, or cannot be read.
std::optional<std::string> read_bounded(const fs::path& path, uint64_t most, RunData& run);

/// Adds the curves of a metrics.jsonl.
void read_metrics(const fs::path& path, RunData& run);

}  // namespace flow::cli::report
