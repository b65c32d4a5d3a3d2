// Where delivered values go: .npy files, standard output, statistics, nowhere; and text files that
// grow by whole lines, such as metrics.jsonl. Used by one thread at a time.
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

/// Of the finite elements. Without any, all but `not_finite` are NaN.
struct Statistics {
  int64_t not_finite = 0;
  double zeros = std::numeric_limits<double>::quiet_NaN();  // as a share
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = mean, min = mean, max = mean, norm = mean;

  plan::StatisticValues values(
      double gradient_norm = std::numeric_limits<double>::quiet_NaN()) const {
    return {mean, std, min, max, zeros, static_cast<double>(not_finite), norm, gradient_norm};
  }
};

/// Of all elements of the parts of one value. The standard deviation is divided by their number,
/// and computed in a second pass. Allocates nothing.
Statistics statistics_of(std::span<const ArrayView> parts);
inline Statistics statistics_of(const ArrayView& value) { return statistics_of({&value, 1}); }

/// One value of one step.
struct Event {
  int64_t step = 0, epoch = 0;
  bool last_of_epoch = false;
  const ArrayView& value;                    // trimmed to its real rows
  std::optional<plan::CallPlace> call = {};  // of a job that another one calls
};

/// A file that grows as a run goes, as it is now.
struct GrowingFile {
  fs::path path;
  uint64_t bytes = 0;  // of an .npy without its header
  std::string digest;  // ContentDigest's, of them
};

/// Of the checkpoint that a run goes on from: the bytes of each file that grows, as of GrowingFile.
/// A power cut may leave more in a file, such as a header that counts what the disk never got.
using RecordedFiles = std::map<fs::path, uint64_t>;

/// The finite elements of a value in bins of equal width, from the least to the greatest.
struct Histogram {
  const std::string& label;  // SinkContext's
  int64_t step = 0;
  const Statistics& statistics;
  std::span<const int64_t> bins;
};

/// What all sinks of a job have alike.
struct JobSinks {
  std::string job = {};
  bool print_steps = false;  // lines begin with the step, where the sink does not say
  fs::path directory = {};   // DIR
  int64_t resume_from = 0;   // keep what was written for steps below; 0: a fresh run
  int64_t calls_before = 0;  // of a job that another one calls
  bool digests = false;      // for list_files
  const RecordedFiles* recorded = nullptr;  // null where the checkpoint does not say
  /// Is told each number that a print sink reduces and prints; may be empty.
  std::function<void(const plan::ReducedMetrics&)> keep_reduced = {};
  /// Is told each histogram of a stats sink; may be empty.
  std::function<void(const Histogram&)> keep_histogram = {};
};
/// What a sink is told about the values it will get. `directory`: its own, DIR/returns/loss.
struct SinkContext : JobSinks {
  std::string name = {};   // "lenet/conv1", the tensor's
  std::string label = {};  // in print, where the sink has none of its own
  std::string where = {};  // of the hook or return: "job.yaml:14:11"
  DType dtype = DType::kFloat32;
  Shape shape = {};  // of one full value
  /// Of row-carrying values of predict jobs over datasets, which are joined: the rows of a step's.
  std::function<int64_t(int64_t step)> rows_at = {};
  bool gradient = false;  // diff.npy instead of value.npy
  bool in_scope = false;  // one of many that a `watch_scope` gives
  // What was delivered of steps below resume_from, and of how many epochs: print's `every` goes on.
  int64_t delivered_before = 0, epochs_before = 0;
  /// Nothing for a file that the checkpoint does not know, such as that of a hook which was not in
  /// the run before.
  std::optional<uint64_t> recorded_bytes(const fs::path& path) const {
    if (!recorded) return {};
    const auto found = recorded->find(path);
    return found == recorded->end() ? std::nullopt : std::optional(found->second);
  }
};

class Sink {
 public:
  virtual ~Sink() = default;
  /// "Reached" on return: a write has been handed to the system.
  virtual void deliver(const Event& event) = 0;
  /// Would an event of the next step only be counted and summed up? Then nothing is written, and
  /// deliver allocates nothing.
  virtual bool absorbs([[maybe_unused]] bool last_of_epoch) const { return false; }
  /// What is summed up, or was last, and is not told yet, for a run that goes on from a checkpoint;
  /// else empty.
  virtual std::vector<uint64_t> held() const { return {}; }
  /// Before the first event: goes on from what such a sink held; one of another kind starts anew.
  /// RequestError where it is damaged.
  virtual void resume(std::span<const uint64_t>) {}
  /// Adds the files that it appends to. REQUIRES: `digests` in the context.
  virtual void list_files(std::vector<GrowingFile>&) const {}
  /// After the last step of an epoch, whether it had an event or not.
  virtual void end_epoch() {}
  /// After the last event of the run, or of a call where a job is called several times in one.
  virtual void end_call() {}
  /// After all events. RunError where the system could not keep what was written.
  virtual void close() {}
};

/// stacked: value.npy and steps.npy, or diff.npy and diff_steps.npy; allocates nothing in deliver.
/// per_step: 000020.npy, or diff_000020.npy. bfloat16 is written as float32. Files are made (or,
/// when resuming, cut) here; RunError when that fails.
std::unique_ptr<Sink> make_npy_sink(const plan::NpySink& options, const SinkContext& context);
/// The values and steps of a stacked one, in its directory.
std::pair<fs::path, fs::path> stacked_files(const fs::path& directory, bool gradient);

/// A line of CSV an event, after a line of names, in the file below. RunError when it cannot be
/// written.
std::unique_ptr<Sink> make_stats_sink(const plan::StatsSink& options, const SinkContext& context);
/// DIRECTORY/stats.csv; of a gradient diff_stats.csv.
fs::path stats_file(const fs::path& directory, bool gradient);

/// A line an event: `LABEL: VALUE`, with ` (shape) dtype` after the array of a gradient or a scope;
/// of a called job `JOB epoch N LABEL: VALUE`, or `JOB step N` where its caller counts steps.
/// `step N` may be before LABEL: the step of the event, or of an epoch `epoch N`, from 1. Or,
/// as `json`, an object:
/// {"event":"print","job":...,"name":...,"label":...,"step":0,"epoch":0,"value":...} (what is not
/// finite is null), with `main_step` and `main_epoch` of a called job. A pipe that its reader
/// closed takes the rest silently (with SIGPIPE ignored). RequestError when `format` is not one
/// conversion of a double.
std::unique_ptr<Sink> make_print_sink(const plan::PrintSink& options, const SinkContext& context,
                                      std::FILE* out, bool json = false);

/// The sink of any variety; null for `none`, and for a command (commands.h), which may be given
/// more than one tensor at a time.
std::unique_ptr<Sink> make_sink(const plan::Sink& options, const SinkContext& context,
                                std::FILE* out, bool json = false);

/// Whole at any moment: each line is one write. Used by one thread at a time.
class LineLog {
 public:
  /// How long it is.
  struct Length {
    int64_t rows = 0;
    uint64_t bytes = 0;
  };

  /// A new file, or the first `rows` lines that an earlier run wrote.
  LineLog(const fs::path& path, int64_t rows);
  /// `line`: without its newline.
  void write(std::string line);
  const Length& length() const { return length_; }
  /// Removes what was written after it had that length.
  void cut(const Length& length);
  /// After the last line. RunError where the system could not keep what was written.
  void close() { file_.close(); }
  GrowingFile file() const { return {file_.path(), length_.bytes, digest_.text()}; }

 private:
  File file_;
  Length length_;
  ContentDigest digest_;
};

}  // namespace flow::io
