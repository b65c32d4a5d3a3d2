// TFRecord files: records, each with its length and checksums (tensorflow/core/lib/io).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace flow::io {

/// A file that grows by whole records: each is one write. Used by one thread at a time.
class RecordFile {
 public:
  /// Creates the file with these bytes, to append to, and returns when it is on the disk.
  RecordFile(const fs::path& path, std::string_view start);

  void append(std::string_view record);
  uint64_t bytes() const { return bytes_; }
  /// Cuts the file to its first `bytes` bytes.
  void cut(uint64_t bytes);
  /// Returns when all of it is on the disk. RunError where the system could not keep it.
  void sync() { file_.sync(); }
  void close();

 private:
  File file_;
  uint64_t bytes_ = 0;
  std::string framed_;
};

/// The record as it is in a file.
std::string framed(std::string_view record);

/// Calls visit(record, end) with each record of `bytes` and the offset behind it, as far as records
/// are whole: a run that was killed may have left a part of one.
void visit_records(std::span<const std::byte> bytes,
                   const std::function<void(std::string_view record, size_t end)>& visit);

}  // namespace flow::io
