// `--tensorboard DIR`: scalars, histograms and the graph of a run, as TensorBoard reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/core/run_request.h"
#include "runtime/exec/events/event_files.h"
#include "runtime/io/events/record_file.h"
#include "runtime/io/sink.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

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

}  // namespace flow::exec
