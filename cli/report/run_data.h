// What a report knows of a run: what its directory says, as far as it can be read, and the arrays
// that it left: values, distributions and small pictures.
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

struct RunData {
  fs::path directory;
  std::string name;                         // short, and another one for each run of a report
  std::optional<compare::RunFacts> record;  // of a run that was killed, or still runs, none
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

/// The elements of one step, counted in bins of equal width from `from` to `to`.
struct Histogram {
  int64_t step = 0;
  double from = 0, to = 0;
  std::vector<double> counts;
};

struct Distribution {
  std::string name;  // "lenet/conv1/weight"
  bool gradient = false;
  uint64_t events = 0;                // of the whole run
  std::vector<Histogram> histograms;  // of at most kMostHistograms events, the oldest first
};

/// Most histograms of a distribution.
inline constexpr size_t kMostHistograms = 24;

/// `i`-th of `most` places among `count`, from the first to the last one. REQUIRES: most > 1.
size_t spread(size_t i, size_t most, size_t count);

/// The histogram of the finite elements, without counts where there are none. Of many elements only
/// some are counted.
Histogram histogram_of(const ArrayView& array, int64_t step);

/// Reads the CSV of a stats sink. RunError where the file is not one.
Distribution read_stats(const fs::path& path);

/// What the job returned last, or first and last.
struct Sample {
  std::string name;                                         // "loss", "sample/images"
  std::string type;                                         // "float32 (64, 1, 28, 28)"
  std::vector<std::pair<std::string, std::string>> values;  // "step 99": "0.12 0.5 ..."
  std::string picture;  // a data URI; empty: it does not look like pictures
  size_t picture_width = 0, picture_height = 0;  // pixels
  std::string caption;                           // of the picture
};

struct Arrays {
  std::vector<Distribution> distributions;
  std::vector<Sample> samples;
};

/// Looks through watch/, returns/ and also/. Scalars become curves of the run; what is damaged or
/// too much becomes a note.
Arrays read_arrays(RunData& run);

/// Draws what looks like pictures into the sample: (..., channels, height, width), (..., height,
/// width, channels) with 1 or 3 channels, or (..., height, width).
void draw_pictures(const ArrayView& slice, Sample& sample);

/// "data:image/png;base64,..." of rows from the top, `channels` bytes a pixel: 1 (gray) or 3 (red,
/// green, blue). REQUIRES: pixels.size() == width * height * channels, none of them 0.
std::string png_uri(std::span<const uint8_t> pixels, size_t width, size_t height, size_t channels);

}  // namespace flow::cli::report
