// Zip headers without compression, as in APPNOTE.TXT of PKWARE.
#include "runtime/io/npz_writer.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/io/gunzip.h"
#include "runtime/io/npy.h"

namespace flow::io {
namespace {

constexpr uint32_t kVersion = 20, kUtf8Names = 0x800, kFirstDay = 0x21;  // 1980-01-01

/// Little-endian numbers, one after another.
class ZipRecord {
 public:
  ZipRecord& word(uint32_t value) { return half(value & 0xffff).half(value >> 16); }
  ZipRecord& half(uint32_t value) {
    text_ += static_cast<char>(value & 0xff);
    text_ += static_cast<char>(value >> 8 & 0xff);
    return *this;
  }
  ZipRecord& bytes(const std::string& text) {
    text_ += text;
    return *this;
  }
  /// What both headers of a file say of it, from the version to its sizes.
  ZipRecord& file(uint32_t checksum, uint32_t size) {
    half(kVersion).half(kUtf8Names).half(0).half(0).half(kFirstDay);
    return word(checksum).word(size).word(size);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

uint32_t NpzWriter::narrowed(uint64_t number) const {
  if (number >= UINT32_MAX)
    throw RunError(fmt::format("{} would be larger than 4 GiB, the most that an .npz can be",
                               file_.path().string()),
                   "write a .safetensors file");
  return static_cast<uint32_t>(number);
}

void NpzWriter::write(const std::string& text) {
  file_.write(text);
  at_ += text.size();
}

void NpzWriter::add(const std::string& name, const ArrayView& array) {
  const std::string header = npy_header(array.dtype, array.shape);
  const std::span<const std::byte> data(array.data, array.bytes());
  const std::span<const std::byte> start(reinterpret_cast<const std::byte*>(header.data()),
                                         header.size());
  const Member member{name + ".npy", zip_checksum(data, zip_checksum(start)),
                      narrowed(header.size() + data.size()), narrowed(at_)};
  if (member.name.size() > UINT16_MAX)
    throw RunError(fmt::format("{}: the name of an array has {} bytes, more than an .npz can hold",
                               file_.path().string(), member.name.size()));
  const auto length = static_cast<uint32_t>(member.name.size());
  write(ZipRecord()
            .word(0x04034b50)
            .file(member.checksum, member.bytes)
            .half(length)
            .half(0)
            .bytes(member.name)
            .bytes(header)
            .text());
  file_.write(data);
  at_ += data.size();
  members_.push_back(member);
}

void NpzWriter::finish() {
  constexpr size_t kMostMembers = 0xfffe;
  if (members_.size() > kMostMembers)
    throw RunError(fmt::format("{} would have {} arrays; an .npz has at most {}",
                               file_.path().string(), members_.size(), kMostMembers),
                   "write a .safetensors file");
  const uint64_t begin = at_;
  for (const Member& member : members_)
    write(ZipRecord()
              .word(0x02014b50)
              .half(kVersion)
              .file(member.checksum, member.bytes)
              .half(static_cast<uint32_t>(member.name.size()))
              .half(0)
              .half(0)
              .half(0)
              .half(0)
              .word(0)
              .word(member.offset)
              .bytes(member.name)
              .text());
  const auto count = static_cast<uint32_t>(members_.size());
  write(ZipRecord()
            .word(0x06054b50)
            .half(0)
            .half(0)
            .half(count)
            .half(count)
            .word(narrowed(at_ - begin))
            .word(narrowed(begin))
            .half(0)
            .text());
}

}  // namespace flow::io
