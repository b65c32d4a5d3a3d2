// TFRecord files: uint64 length, its masked CRC32C, the data, theirs.
#include "runtime/io/events/record_file.h"

#include <cstring>

#include "runtime/io/events/crc32c.h"
#include "runtime/io/events/raw_bytes.h"

namespace flow::io {
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
  write_text_atomically(path, start);  // on the disk: other files may be removed now
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
