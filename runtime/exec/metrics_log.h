// metrics.jsonl: a line for every logged step, whole at any moment.
#pragma once

#include <cstdint>

#include "runtime/base/file.h"
#include "runtime/plan/records.h"

namespace flow::exec {

class MetricsLog {
 public:
  /// A new file, or what an earlier run wrote of the steps below `resume_from`.
  MetricsLog(const fs::path& path, int64_t resume_from);
  void append(const plan::Metrics& metrics);

 private:
  File file_;
  uint64_t end_ = 0;
};

}  // namespace flow::exec
