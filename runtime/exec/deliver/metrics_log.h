// metrics.jsonl: a line for every logged step and every reduced number.
#pragma once

#include "runtime/exec/events/tensorboard.h"
#include "runtime/io/line_log.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

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
