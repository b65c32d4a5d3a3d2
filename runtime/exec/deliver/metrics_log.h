// metrics.jsonl: a line for every logged step and every reduced number.
#pragma once

#include "runtime/io/line_log.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

class MetricsLog : public io::LineLog {
 public:
  using LineLog::LineLog;

  /// A line, of any kind that plan::to_json_line writes.
  template <class Metrics>
  void append(const Metrics& metrics) {
    write(plan::to_json_line(metrics));
  }
};

}  // namespace flow::exec
