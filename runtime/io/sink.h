// The destinations of delivered values: .npy files, standard output, statistics, or nothing. Also
// text files that grow by whole lines, such as metrics.jsonl. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/digest.h"
#include "runtime/base/file.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/condition.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

/// Statistics of the finite elements of a value. If no element is finite, all members except
/// `not_finite` are NaN.
struct Statistics {
  int64_t not_finite = 0;
  // Share of zeros among the finite elements.
  double zeros = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = mean, min = mean, max = mean, norm = mean;

  plan::StatisticValues values(
      double gradient_norm = std::numeric_limits<double>::quiet_NaN()) const {
    return {mean, std, min, max, zeros, static_cast<double>(not_finite), norm, gradient_norm};
  }
};

/// Computes the statistics of all elements of the parts of a value. The standard deviation is
/// divided by the number of finite elements and computed in a second pass. Allocates nothing.
Statistics statistics_of(std::span<const ArrayView> parts);
inline Statistics statistics_of(const ArrayView& value) { return statistics_of({&value, 1}); }

/// The value of a tensor in one step.
struct Event {
  int64_t step = 0, epoch = 0;
  bool last_of_epoch = false;
  const ArrayView& value;                    // without padding rows
  std::optional<plan::CallPlace> call = {};  // set if another job calls this job
};

/// The current state of a file that grows during a run.
struct GrowingFile {
  fs::path path;
  uint64_t bytes = 0;  // without the header of a .npy
  std::string digest;  // ContentDigest of these bytes
};

/// The number of bytes that each growing file had at the checkpoint from which a run continues,
/// counted as in GrowingFile. After a power cut a file may have more, such as a header that counts
/// data which the disk never received.
using RecordedFiles = std::map<fs::path, uint64_t>;

/// The finite elements of a value, counted in bins of equal width from the least to the greatest.
struct Histogram {
  const std::string& label;  // label of the SinkContext
  int64_t step = 0;
  const Statistics& statistics;
  std::span<const int64_t> bins;
};

/// The settings that all sinks of a job share.
struct JobSinks {
  std::string job = {};
  bool print_steps = false;  // begins lines with the step unless the sink decides otherwise
  fs::path directory = {};   // the run directory
  int64_t resume_from = 0;   // keep values of earlier steps; 0 for a fresh run
  int64_t calls_before = 0;  // number of earlier calls if another job calls this job
  bool digests = false;      // required by list_files
  const RecordedFiles* recorded = nullptr;  // null if the checkpoint has no record
  /// Receives each number that a print sink reduces and prints. May be empty.
  std::function<void(const plan::ReducedMetrics&)> keep_reduced = {};
  /// Receives each histogram of a stats sink. May be empty.
  std::function<void(const Histogram&)> keep_histogram = {};
};
/// Describes the values that a sink will receive. `directory` is that of the sink, such as
/// DIR/returns/loss.
struct SinkContext : JobSinks {
  std::string name = {};   // name of the tensor, such as "lenet/conv1"
  std::string label = {};  // printed if the sink sets no label
  std::string where = {};  // place of the hook or return: "job.yaml:14:11"
  DType dtype = DType::kFloat32;
  Shape shape = {};  // shape of a full value
  /// Returns the number of rows of a step. It is set for values with rows of predict jobs over
  /// datasets, which are joined.
  std::function<int64_t(int64_t step)> rows_at = {};
  bool gradient = false;  // write diff.npy instead of value.npy
  bool in_scope = false;  // one of several values that a `watch_scope` delivers
  // The number of values that were delivered for steps below resume_from, and the number of their
  // epochs. With them `every` of a print sink continues its count.
  int64_t delivered_before = 0, epochs_before = 0;
  /// Returns nothing for a file that the checkpoint does not record, such as that of a hook that
  /// was added after the checkpoint.
  std::optional<uint64_t> recorded_bytes(const fs::path& path) const {
    if (!recorded) return {};
    const auto found = recorded->find(path);
    return found == recorded->end() ? std::nullopt : std::optional(found->second);
  }
};

class Sink {
 public:
  virtual ~Sink() = default;
  /// Delivers a value. On return, its data has been written to the system.
  virtual void deliver(const Event& event) = 0;
  /// Returns true if an event of the next step would only be counted and accumulated. In this case
  /// nothing is written, and deliver() allocates nothing.
  virtual bool absorbs([[maybe_unused]] bool last_of_epoch) const { return false; }
  /// Returns the state that is accumulated or not yet printed, for a run that continues from a
  /// checkpoint. Returns an empty vector if there is none.
  virtual std::vector<uint64_t> held() const { return {}; }
  /// Continues, before the first event, with the state that held() returned. A sink of another kind
  /// ignores it. Throws RequestError if the state is damaged.
  virtual void resume(std::span<const uint64_t>) {}
  /// Adds the files to which the sink appends. REQUIRES: `digests` is set in the context.
  virtual void list_files(std::vector<GrowingFile>&) const {}
  /// Called after the last step of each epoch, even if that step had no event.
  virtual void end_epoch() {}
  /// Called after the last event of the run, or of a call if a job is called several times in a
  /// run.
  virtual void end_call() {}
  /// Closes the sink after all events. Throws RunError if the system could not store the data.
  virtual void close() {}
};

/// Creates a sink that writes .npy files. If values are stacked, the files are value.npy and
/// steps.npy, or diff.npy and diff_steps.npy, and deliver() allocates nothing. With `per_step`,
/// they are 000020.npy, or diff_000020.npy. bfloat16 is written as float32. This function creates
/// the files, or cuts them if a run is resumed; it throws RunError if that fails.
std::unique_ptr<Sink> make_npy_sink(const plan::NpySink& options, const SinkContext& context);
/// Returns the paths of the values and the steps of a stacked sink, in the sink's directory.
std::pair<fs::path, fs::path> stacked_files(const fs::path& directory, bool gradient);

/// Creates a sink that writes stats_file(): a line of column names, then a line of CSV for each
/// event. Throws RunError if the file cannot be written.
std::unique_ptr<Sink> make_stats_sink(const plan::StatsSink& options, const SinkContext& context);
/// Returns DIRECTORY/stats.csv, or DIRECTORY/diff_stats.csv for a gradient.
fs::path stats_file(const fs::path& directory, bool gradient);

/// Creates a sink that prints a line for each event: `LABEL: VALUE`, followed by ` (shape) dtype`
/// for the array of a gradient or a scope. Lines of a called job begin with `JOB epoch N`, or with
/// `JOB step N` if the caller counts steps. LABEL may follow `step N`, the step of the event, or
/// `epoch N`, counted from 1, if the result spans an epoch. With `json` a line is an object:
/// {"event":"print","job":...,"name":...,"label":...,"step":0,"epoch":0,"value":...}.
/// Values that are not finite are null, and a called job adds `main_step` and `main_epoch`. After
/// the reader of a pipe has closed it, output is dropped silently (if SIGPIPE is ignored). Throws
/// RequestError if `format` is not a single conversion of a double.
std::unique_ptr<Sink> make_print_sink(const plan::PrintSink& options, const SinkContext& context,
                                      std::FILE* out, bool json = false);

/// Creates a sink of any kind. Returns null for `none`, and for a command (commands.h), which may
/// receive more than one tensor at a time.
std::unique_ptr<Sink> make_sink(const plan::Sink& options, const SinkContext& context,
                                std::FILE* out, bool json = false);

/// A text file that is whole at any moment, because each line is one write. Used by one thread at a
/// time.
class LineLog {
 public:
  /// The length of the file.
  struct Length {
    int64_t rows = 0;
    uint64_t bytes = 0;
  };

  /// Creates a new file, or keeps the first `rows` lines of an earlier run.
  LineLog(const fs::path& path, int64_t rows);
  /// Appends `line`, which has no newline, and a newline.
  void write(std::string line);
  const Length& length() const { return length_; }
  /// Removes what was written after the file had this length.
  void cut(const Length& length);
  /// Closes the file after the last line. Throws RunError if the system could not store the data.
  void close() { file_.close(); }
  GrowingFile file() const { return {file_.path(), length_.bytes, digest_.text()}; }

 private:
  File file_;
  Length length_;
  ContentDigest digest_;
};

}  // namespace flow::io
