// Messages in Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding).
//
// Event files need nine small messages, written and never read. libprotobuf would add a library to
// the start of every flowrun, and TensorFlow's .proto files and a code generator to the build.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace flow::io {

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

}  // namespace flow::io
