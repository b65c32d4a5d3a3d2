// Implements `--tensorboard DIR`: writes scalars, histograms and the graph of a run in the format
// of TensorBoard. Also writes metrics.jsonl, whose lines TensorBoard receives, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/io/event_records.h"
#include "runtime/io/sink.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// Events as in tensorflow/core/util/event.proto. Each function returns an encoded event.
namespace event {
constexpr size_t kTimeBytes = 9;  // the bytes of the field wall_time, which is first

std::string version();
/// Marks the start of a run, at step 0: readers discard all events that they read before it.
/// `identity` identifies the job.
std::string start(std::string_view identity);
/// Marks a checkpoint: all events before it belong to the first `steps` steps.
std::string checkpoint(int64_t steps);
/// Wraps `message`, an encoded GraphDef or Summary, as field number `field`.
std::string holding(int field, int64_t step, std::string_view message);
constexpr int kGraph = 4, kSummary = 5;
}  // namespace event

/// The event files that a directory contains before the run writes to it.
struct EventFiles {
  std::vector<fs::path> earlier;      // files that the new file replaces
  std::vector<fs::path> temporaries;  // files of a killed run, which TensorBoard would read
  std::string kept;  // the first bytes of the new file; empty if it starts without earlier events
  fs::path path;     // the path of the new file
};

/// Lists and reads the event files; writes nothing. Throws RequestError if the directory of
/// `--tensorboard` contains events of another run, or cannot be a directory. `first` is the first
/// step of the run.
EventFiles find_event_files(const RunRequest& request, int64_t first);

/// Called before the run writes anything: throws RequestError if the directory of `--tensorboard`
/// contains events of another run, or is one that the run writes to. REQUIRES: `--tensorboard` is
/// given.
void check_events(const RunRequest& request, int64_t first);

/// An event file that grows during the run. A resumed run replaces the file with a copy that ends
/// at the checkpoint and continues the copy, so that a reader sees each event once. Only one thread
/// may use it at a time.
class TensorBoard {
 public:
  /// Creates the file. `jobs` are the jobs of the graph; the main job is first.
  TensorBoard(const RunRequest& request, int64_t first, const std::vector<const plan::Job*>& jobs);

  void add(const plan::Metrics& metrics);
  void add(const plan::ReducedMetrics& metrics);
  void add(const plan::CalledMetrics& metrics);
  void add_followed(const plan::ReducedMetrics& metrics);
  void add(const std::string& job, const io::Histogram& histogram);
  /// Called before the checkpoint after `steps` steps is written: all events so far belong to these
  /// steps. Returns when they are on the disk.
  void mark_checkpoint(int64_t steps) {
    file_->append(event::checkpoint(steps));
    file_->sync();
  }

  uint64_t bytes() const { return file_->bytes(); }
  /// Truncates the file to its first `bytes` bytes.
  void cut(uint64_t bytes) { file_->cut(bytes); }
  /// Called after the last event. Throws RunError if the system could not store what was written.
  void close() { file_->close(); }

 private:
  void add(const plan::ReducedMetrics& metrics, std::string_view suffix);

  const std::string job_;
  std::optional<io::RecordFile> file_;
};

/// The file metrics.jsonl, with a line for each logged step and each reduced number.
class MetricsLog : public io::LineLog {
 public:
  /// `path` and `rows` are those of LineLog. `tensorboard` receives each row, too. It may be null
  /// and must outlive this object.
  MetricsLog(const fs::path& path, int64_t rows, TensorBoard* tensorboard = nullptr)
      : LineLog(path, rows), tensorboard_(tensorboard) {}

  /// Appends a line of any type that plan::to_json_line writes.
  template <class Metrics>
  void append(const Metrics& metrics) {
    write(plan::to_json_line(metrics));
    if (tensorboard_) tensorboard_->add(metrics);
  }
  /// Appends a value that the run follows. A print sink may have appended the same value.
  void append_followed(const plan::ReducedMetrics& metrics) {
    write(plan::to_json_line(metrics));
    if (tensorboard_) tensorboard_->add_followed(metrics);
  }

 private:
  TensorBoard* tensorboard_;
};

}  // namespace flow::exec
