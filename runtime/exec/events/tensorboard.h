// `--tensorboard DIR`: scalars, histograms and the graph of a run, as TensorBoard reads them, and
// metrics.jsonl, whose lines TensorBoard gets, too.
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

/// tensorflow/core/util/event.proto, without its time. Each function returns an encoded event.
namespace event {
constexpr size_t kTimeBytes = 9;  // wall_time, which comes first

std::string version();
/// Readers forget all that they read before of steps from this one on. `identity`: of the job.
std::string start(std::string_view identity);
/// Everything before it is of the first `steps` steps.
std::string checkpoint(int64_t steps);
/// Around the message of a field: a GraphDef or a Summary.
std::string holding(int field, int64_t step, std::string_view message);
constexpr int kGraph = 4, kSummary = 5;
}  // namespace event

/// What a directory has before the run writes to it.
struct EventFiles {
  std::vector<fs::path> earlier;      // which the new file replaces
  std::vector<fs::path> temporaries;  // of a run that was killed: TensorBoard would read them
  std::string kept;                   // the first bytes of the new file; empty: a fresh one
  fs::path path;                      // of the new file
};

/// Looks and reads; writes nothing. RequestError where the directory of `--tensorboard` has events
/// of another run, or cannot be one. `first`: the step that the run begins with.
EventFiles find_event_files(const RunRequest& request, int64_t first);

/// Before the run writes anything: RequestError where the directory of `--tensorboard` has events
/// of another run, or is among what the run writes. REQUIRES: it is given.
void check_events(const RunRequest& request, int64_t first);

/// One event file, which grows as the run goes. A resumed run replaces it by a copy that ends at
/// the checkpoint, and continues that: a reader sees each event once. Used by one thread at a time.
class TensorBoard {
 public:
  /// Makes the file; `jobs`: of the graph, the one that runs first.
  TensorBoard(const RunRequest& request, int64_t first, const std::vector<const plan::Job*>& jobs);

  void add(const plan::Metrics& metrics);
  void add(const plan::ReducedMetrics& metrics);
  void add(const plan::CalledMetrics& metrics);
  void add_followed(const plan::ReducedMetrics& metrics);
  void add(const std::string& job, const io::Histogram& histogram);
  /// Before the checkpoint after `steps` steps is written: all events so far are of these steps.
  /// Returns when they are on the disk.
  void mark_checkpoint(int64_t steps) {
    file_->append(event::checkpoint(steps));
    file_->sync();
  }

  uint64_t bytes() const { return file_->bytes(); }
  /// Cuts the file to its first `bytes` bytes.
  void cut(uint64_t bytes) { file_->cut(bytes); }
  /// After the last event. RunError where the system could not keep what was written.
  void close() { file_->close(); }

 private:
  void add(const plan::ReducedMetrics& metrics, std::string_view suffix);

  const std::string job_;
  std::optional<io::RecordFile> file_;
};

/// metrics.jsonl: a line for every logged step and every reduced number.
class MetricsLog : public io::LineLog {
 public:
  /// As of LineLog; `tensorboard` gets each row, too. It may be null, and outlives this.
  MetricsLog(const fs::path& path, int64_t rows, TensorBoard* tensorboard = nullptr)
      : LineLog(path, rows), tensorboard_(tensorboard) {}

  /// A line, of any kind that plan::to_json_line writes.
  template <class Metrics>
  void append(const Metrics& metrics) {
    write(plan::to_json_line(metrics));
    if (tensorboard_) tensorboard_->add(metrics);
  }
  /// A value that the run follows: a print sink may have written it, too.
  void append_followed(const plan::ReducedMetrics& metrics) {
    write(plan::to_json_line(metrics));
    if (tensorboard_) tensorboard_->add_followed(metrics);
  }

 private:
  TensorBoard* tensorboard_;
};

}  // namespace flow::exec
