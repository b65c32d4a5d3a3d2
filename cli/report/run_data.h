// The data that a report has about a run: the readable contents of the run directory, and its
// arrays as values, distributions and small pictures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/compare/run_plan.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli::report {

/// Records one number over any count of steps in a bounded number of points. Each group of
/// neighboring points keeps its least and its greatest value, so that no spike is lost. A value
/// that is not finite is a gap.
class Series {
 public:
  struct Point {
    double x = 0, y = 0;
  };

  void add(double x, double y);

  /// Returns at most `most` points and additionally the last one, in order. A gap is a point whose
  /// y is NaN.
  std::vector<Point> points(size_t most) const;
  uint64_t count() const { return count_; }
  uint64_t gaps() const { return gaps_; }
  /// Returns the last finite value, or nothing if there is none. The next two functions return the
  /// least and the greatest finite value.
  std::optional<Point> last() const { return last_; }
  std::optional<Point> least() const { return least_; }
  std::optional<Point> greatest() const { return greatest_; }

 private:
  struct Group {
    Point first, second;  // the least and the greatest, in the order of their occurrence
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
  std::string job;         // empty for the job itself
  std::string label;       // "loss", "accuracy"
  bool own_steps = false;  // true if x counts steps of `job` rather than of its caller
  Series series = {};

  std::string title() const { return job.empty() || job == label ? label : job + ": " + label; }
};

/// The last value of a metric that is an array, such as a confusion matrix.
struct Matrix {
  std::string title;
  double step = 0;
  std::vector<std::vector<double>> rows;
};

struct RunData {
  fs::path directory;
  std::string name;                         // short, and unique among the runs of a report
  std::optional<compare::RunFacts> record;  // empty if the run was killed or is still running
  std::optional<plan::Plan> plan;
  const plan::Job* job = nullptr;  // the job in `plan` that ran
  std::vector<Curve> curves;
  std::vector<Matrix> matrices;
  std::vector<std::string> notes;  // describe what could not be read or was left out

  void note(std::string text) { notes.push_back(std::move(text)); }
};

/// Reads run.json, plan.json and metrics.jsonl. Throws RequestError if the directory is not a run
/// directory.
RunData read_run(const fs::path& directory);

/// Returns the text of a regular file, or nothing if it is absent. If it has more than `most`
/// bytes, is not a regular file or cannot be read, returns nothing and adds a note to `run`.
std::optional<std::string> read_bounded(const fs::path& path, uint64_t most, RunData& run);

/// Adds the curves of a metrics.jsonl to `run`.
void read_metrics(const fs::path& path, RunData& run);

/// The distribution of the elements at one step, counted in bins of equal width from `from` to
/// `to`.
struct Histogram {
  int64_t step = 0;
  double from = 0, to = 0;
  std::vector<double> counts;
};

struct Distribution {
  std::string name;  // "lenet/conv1/weight"
  bool gradient = false;
  uint64_t events = 0;                // the number of events in the whole run
  std::vector<Histogram> histograms;  // at most kMostHistograms events, oldest first
};

/// The maximum number of histograms in a distribution.
inline constexpr size_t kMostHistograms = 24;

/// Returns the i-th of `most` places spread evenly over `count`, including the first and the last.
/// REQUIRES: most > 1.
size_t spread(size_t i, size_t most, size_t count);

/// Returns the histogram of the finite elements, without counts if there are none. For a large
/// array, counts only some of the elements.
Histogram histogram_of(const ArrayView& array, int64_t step);

/// Reads the CSV of a stats sink. Throws RunError if the file has another format.
Distribution read_stats(const fs::path& path);

/// The last value, or the first and the last value, that a job returned.
struct Sample {
  std::string name;                                         // "loss", "sample/images"
  std::string type;                                         // "float32 (64, 1, 28, 28)"
  std::vector<std::pair<std::string, std::string>> values;  // "step 99": "0.12 0.5 ..."
  std::string picture;  // a data URI; empty if the value does not look like pictures
  size_t picture_width = 0, picture_height = 0;  // pixels
  std::string caption;                           // describes the picture
};

struct Arrays {
  std::vector<Distribution> distributions;
  std::vector<Sample> samples;
};

/// Reads watch/, returns/ and also/. Scalars become curves of the run. Damaged or excess files
/// become notes.
Arrays read_arrays(RunData& run);

/// Draws arrays that look like pictures into the sample: (..., channels, height, width) or (...,
/// height, width, channels) with 1 or 3 channels, or (..., height, width).
void draw_pictures(const ArrayView& slice, Sample& sample);

/// Returns "data:image/png;base64,..." for rows of pixels from the top. `channels` is the number of
/// bytes per pixel: 1 (gray) or 3 (red, green, blue). REQUIRES: pixels.size() == width * height *
/// channels, and none of the factors is 0.
std::string png_uri(std::span<const uint8_t> pixels, size_t width, size_t height, size_t channels);

}  // namespace flow::cli::report
