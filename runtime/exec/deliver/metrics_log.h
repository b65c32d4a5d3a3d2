// metrics.jsonl: a line for every logged step and every reduced number, whole at any moment.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/content_digest.h"
#include "runtime/base/file.h"
#include "runtime/io/sink.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// Used by one thread at a time.
class MetricsLog {
 public:
  /// How long it is.
  struct Length {
    int64_t rows = 0;
    uint64_t bytes = 0;
  };

  /// A new file, or the first `rows` lines that an earlier run wrote.
  MetricsLog(const fs::path& path, int64_t rows);
  /// A line, of any kind that plan::to_json_line writes.
  template <class Metrics>
  void append(const Metrics& metrics) {
    write(plan::to_json_line(metrics));
  }
  const Length& length() const { return length_; }
  /// Removes what was appended after it had that length.
  void cut(const Length& length);
  /// After the last line. RunError where the system could not keep what was written.
  void close() { file_.close(); }
  io::GrowingFile file() const { return {file_.path(), length_.bytes, digest_.text()}; }

 private:
  void write(std::string line);

  File file_;
  Length length_;
  ContentDigest digest_;
};

}  // namespace flow::exec
