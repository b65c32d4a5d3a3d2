// Event files of TensorBoard: messages in the wire format of Protocol Buffers
// (protobuf.dev/programming-guides/encoding), stored as records of TFRecord files, each with its
// length and checksums (tensorflow/core/lib/io).
//
// Event files need nine small messages, which are written and never read. libprotobuf would add a
// library to every start of flowrun, and TensorFlow's .proto files and a code generator to the
// build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace flow::io {

/// Computes the CRC32C (Castagnoli, RFC 3720) that protects the records.
uint32_t crc32c(std::span<const std::byte> bytes);

/// Returns the CRC32C as TFRecord stores it, rotated by 15 bits plus a constant. This keeps the
/// checksum effective for data that contains checksums (tensorflow/core/lib/hash/crc32c.h).
uint32_t masked_crc32c(std::span<const std::byte> bytes);

/// A message, whose fields are written in the order of the calls.
class Protobuf {
 public:
  /// Adds a field of type int64, uint64, int32, enum or bool.
  void integer(int field, int64_t value);
  void float64(int field, double value);
  void float32(int field, float value);
  /// Adds a field of type string or bytes.
  void text(int field, std::string_view value);
  void message(int field, const Protobuf& value) { text(field, value.bytes()); }
  /// Adds a packed field of type `repeated double`.
  void float64s(int field, std::span<const double> values);

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type);
  void varint(uint64_t value);

  std::string bytes_;
};

/// A file that grows by whole records, each written in a single write. Used by one thread at a
/// time.
class RecordFile {
 public:
  /// Creates a file that begins with the bytes `start` and can be appended to. Returns when it is
  /// on the disk.
  RecordFile(const fs::path& path, std::string_view start);

  void append(std::string_view record);
  uint64_t bytes() const { return bytes_; }
  /// Cuts the file to its first `bytes` bytes.
  void cut(uint64_t bytes);
  /// Returns when the whole file is on the disk. Throws RunError if the system could not store it.
  void sync() { file_.sync(); }
  void close();

 private:
  File file_;
  uint64_t bytes_ = 0;
  std::string framed_;
};

/// Returns the record in the form in which a file stores it.
std::string framed(std::string_view record);

/// Calls visit(record, end) with each record of `bytes` and the offset after it. It stops at the
/// first record that is not whole, because a killed run may have left a part of one.
void visit_records(std::span<const std::byte> bytes,
                   const std::function<void(std::string_view record, size_t end)>& visit);

}  // namespace flow::io
