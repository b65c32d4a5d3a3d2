// Messages in Protocol Buffers' wire format.
#include "runtime/io/events/protobuf.h"

#include "runtime/io/events/raw_bytes.h"

namespace flow::io {
namespace {

constexpr int kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

}  // namespace

void Protobuf::varint(uint64_t value) {
  constexpr uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7) bytes_ += static_cast<char>(value | kMore);
  bytes_ += static_cast<char>(value);
}

void Protobuf::tag(int field, int wire_type) {
  varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

void Protobuf::integer(int field, int64_t value) {
  tag(field, kVarint);
  varint(static_cast<uint64_t>(value));
}

void Protobuf::float64(int field, double value) {
  tag(field, kFixed64);
  append_raw(bytes_, value);
}

void Protobuf::float32(int field, float value) {
  tag(field, kFixed32);
  append_raw(bytes_, value);
}

void Protobuf::text(int field, std::string_view value) {
  tag(field, kLengthDelimited);
  varint(value.size());
  bytes_ += value;
}

void Protobuf::float64s(int field, std::span<const double> values) {
  tag(field, kLengthDelimited);
  varint(values.size_bytes());
  for (const double value : values) append_raw(bytes_, value);
}

}  // namespace flow::io
