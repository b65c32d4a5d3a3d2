// Messages in the wire format of Protocol Buffers, and TFRecord files, in which a record is a
// uint64 length, the masked CRC32C of the length, the data, and the masked CRC32C of the data.
#include "runtime/io/event_records.h"

#include <array>
#include <bit>
#include <cstring>

namespace flow::io {

/// Both formats are little-endian, like every supported machine.
static_assert(std::endian::native == std::endian::little);

namespace {

template <typename T>
void append_raw(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

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

namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41 with its bits reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  constexpr uint32_t kMask = 0xa282ead8;
  return std::rotr(crc32c(bytes), 15) + kMask;
}

namespace {

constexpr size_t kHeader = sizeof(uint64_t) + sizeof(uint32_t), kFooter = sizeof(uint32_t);

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename T>
T value_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void append_framed(std::string_view record, std::string& out) {
  const size_t start = out.size();
  append_raw(out, static_cast<uint64_t>(record.size()));
  append_raw(out, masked_crc32c(bytes_of_text(out).subspan(start)));
  out += record;
  append_raw(out, masked_crc32c(bytes_of_text(record)));
}

}  // namespace

RecordFile::RecordFile(const fs::path& path, std::string_view start) {
  // The file is on the disk on return, because other files may be removed after that.
  write_text_atomically(path, start);
  file_ = File::open_update(path);
  bytes_ = start.size();
}

void RecordFile::append(std::string_view record) {
  framed_.clear();
  append_framed(record, framed_);
  file_.write_at(bytes_, bytes_of_text(framed_));
  bytes_ += framed_.size();
}

void RecordFile::cut(uint64_t bytes) {
  file_.truncate(bytes);
  bytes_ = bytes;
}

void RecordFile::close() {
  file_.sync();
  file_.close();
}

std::string framed(std::string_view record) {
  std::string out;
  append_framed(record, out);
  return out;
}

void visit_records(std::span<const std::byte> bytes,
                   const std::function<void(std::string_view record, size_t end)>& visit) {
  for (size_t at = 0; bytes.size() - at >= kHeader + kFooter;) {
    const auto length = value_at<uint64_t>(bytes, at);
    if (length > bytes.size() - at - kHeader - kFooter ||
        value_at<uint32_t>(bytes, at + sizeof length) !=
            masked_crc32c(bytes.subspan(at, sizeof length)))
      return;
    const auto record = bytes.subspan(at + kHeader, length);
    at += kHeader + length + kFooter;
    if (value_at<uint32_t>(bytes, at - kFooter) != masked_crc32c(record)) return;
    visit({reinterpret_cast<const char*>(record.data()), record.size()}, at);
  }
}

}  // namespace flow::io
