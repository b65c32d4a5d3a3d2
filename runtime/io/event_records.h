// Event files of TensorBoard: messages in Protocol Buffers' wire format
// (protobuf.dev/programming-guides/encoding), and TFRecord files of records, each with its length
// and checksums (tensorflow/core/lib/io).
//
// Event files need nine small messages, written and never read. libprotobuf would add a library to
// the start of every flowrun, and TensorFlow's .proto files and a code generator to the build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace flow::io {

/// CRC32C (Castagnoli, RFC 3720), which frames the records.
uint32_t crc32c(std::span<const std::byte> bytes);

/// As TFRecord stores it: rotated by 15 bits, plus a constant, so that the checksum of data that
/// holds checksums stays a good one (tensorflow/core/lib/hash/crc32c.h).
uint32_t masked_crc32c(std::span<const std::byte> bytes);

/// A message; its fields are written in the order of the calls.
class Protobuf {
 public:
  /// int64, uint64, int32, enum or bool.
  void integer(int field, int64_t value);
  void float64(int field, double value);
  void float32(int field, float value);
  /// string or bytes.
  void text(int field, std::string_view value);
  void message(int field, const Protobuf& value) { text(field, value.bytes()); }
  /// Packed `repeated double`.
  void float64s(int field, std::span<const double> values);

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type);
  void varint(uint64_t value);

  std::string bytes_;
};

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

/// Calls visit(record, end) with each record of `bytes` and the offset after it, as far as records
/// are whole: a run that was killed may have left a part of one.
void visit_records(std::span<const std::byte> bytes,
                   const std::function<void(std::string_view record, size_t end)>& visit);

}  // namespace flow::io
