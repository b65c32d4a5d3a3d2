// A text file that grows by whole lines, such as metrics.jsonl.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/content_digest.h"
#include "runtime/base/file.h"
#include "runtime/io/sink.h"

namespace flow::io {

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
