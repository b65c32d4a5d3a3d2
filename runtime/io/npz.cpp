// The central directory at the end of a zip archive says what is where; the headers before the
// files are only stepped over.
#include "runtime/io/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/gunzip.h"

namespace flow::io {

namespace {

constexpr uint32_t kEndMark = 0x06054b50, kDirectoryMark = 0x02014b50, kFileMark = 0x04034b50;
constexpr size_t kEndBytes = 22, kDirectoryBytes = 46, kFileBytes = 30;
constexpr uint32_t kZip64 = 0xffffffff;

/// Little-endian numbers of a part of the archive, which begins with a mark.
class Record {
 public:
  Record(std::span<const std::byte> bytes, size_t at) : bytes_(bytes.subspan(at)) {}
  uint32_t word(size_t at) const { return half(at) | half(at + 2) << 16; }
  uint32_t half(size_t at) const { return byte(at) | byte(at + 1) << 8; }
  std::string_view text(size_t at, size_t length) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }

 private:
  uint32_t byte(size_t at) const { return std::to_integer<uint32_t>(bytes_[at]); }
  std::span<const std::byte> bytes_;
};

/// A file as the directory lists it.
struct Listed {
  std::string_view name;
  uint32_t flags = 0, method = 0, checksum = 0;
  uint32_t packed = 0, unpacked = 0, offset = 0;
};

class Archive {
 public:
  Archive(std::span<const std::byte> zip, const std::string& name) : zip_(zip), name_(name) {}

  NpzMember read(const std::string& array) const {
    const std::string wanted = array + ".npy";
    std::vector<Listed> all = files();
    std::ranges::reverse(all);  // what was added last replaces a namesake
    std::vector<std::string> arrays;
    for (const Listed& file : all) {
      if (file.name == wanted) return unpack(file);
      if (file.name.ends_with(".npy"))
        arrays.emplace(arrays.begin(), file.name.substr(0, file.name.size() - 4));
    }
    throw RunError(fmt::format("{} has no array `{}`", name_, array),
                   arrays.empty() ? "it has no arrays at all"
                                  : fmt::format("its arrays: {}", join(arrays, ", ")));
  }

 private:
  [[noreturn]] void damaged(std::string_view what) const {
    throw RunError(fmt::format("{} is no .npz, or damaged: {}", name_, what));
  }

  bool fits(uint64_t at, uint64_t length) const {
    return at <= zip_.size() && length <= zip_.size() - at;
  }

  /// The record that ends the archive; only a comment may follow it.
  size_t find_end() const {
    constexpr size_t kLongestComment = 65535;
    if (zip_.size() < kEndBytes) damaged("it is too short to be a zip archive");
    const size_t last = zip_.size() - kEndBytes;
    const size_t first = last > kLongestComment ? last - kLongestComment : 0;
    for (size_t at = last + 1; at-- > first;) {
      const Record end(zip_, at);
      if (end.word(0) == kEndMark && at + kEndBytes + end.half(20) == zip_.size()) return at;
    }
    damaged("it does not end as a zip archive does");
  }

  std::vector<Listed> files() const {
    const size_t end_at = find_end();
    const Record end(zip_, end_at);
    const uint32_t count = end.half(10), bytes = end.word(12), begin = end.word(16);
    if (count == 0xffff || bytes == kZip64 || begin == kZip64) refuse_zip64();
    if (uint64_t{begin} + bytes > end_at) damaged("its directory lies outside of it");
    std::vector<Listed> files;
    uint64_t at = begin;
    for (uint32_t i = 0; i < count; ++i) {
      if (at + kDirectoryBytes > end_at || Record(zip_, at).word(0) != kDirectoryMark)
        damaged("its directory ends too early");
      const Record entry(zip_, at);
      const size_t name = entry.half(28), rest = entry.half(30) + entry.half(32);
      if (at + kDirectoryBytes + name + rest > end_at) damaged("its directory ends too early");
      files.push_back({entry.text(kDirectoryBytes, name), entry.half(8), entry.half(10),
                       entry.word(16), entry.word(20), entry.word(24), entry.word(42)});
      at += kDirectoryBytes + name + rest;
    }
    return files;
  }

  [[noreturn]] void refuse_zip64() const {
    throw RunError(fmt::format("{} is a zip64 archive, which flow does not read", name_),
                   "save the array as an .npy");
  }

  NpzMember unpack(const Listed& file) const {
    if (file.packed == kZip64 || file.unpacked == kZip64 || file.offset == kZip64) refuse_zip64();
    if (file.flags & 1) throw RunError(fmt::format("{}: `{}` is encrypted", name_, file.name));
    const std::span<const std::byte> packed = packed_bytes(file);
    NpzMember member;
    if (file.method == 0) {
      if (file.packed != file.unpacked) damaged("a stored file has two sizes");
      member.bytes = packed;
    } else if (file.method == 8) {
      member.memory = inflate_raw(packed, file.unpacked, name_);
      member.bytes = {member.memory.get(), file.unpacked};
    } else {
      throw RunError(fmt::format("{}: `{}` is packed by method {}, which flow does not read", name_,
                                 file.name, file.method),
                     "numpy.savez and numpy.savez_compressed write what it reads");
    }
    if (zip_checksum(member.bytes) != file.checksum)
      throw RunError(fmt::format("{} is damaged: the checksum of `{}` is wrong", name_, file.name));
    return member;
  }

  std::span<const std::byte> packed_bytes(const Listed& file) const {
    if (!fits(file.offset, kFileBytes) || Record(zip_, file.offset).word(0) != kFileMark)
      damaged("a file does not begin where the directory says");
    const Record header(zip_, file.offset);
    const uint64_t begin = uint64_t{file.offset} + kFileBytes + header.half(26) + header.half(28);
    if (!fits(begin, file.packed)) damaged("a file is truncated");
    return zip_.subspan(begin, file.packed);
  }

  std::span<const std::byte> zip_;
  const std::string& name_;
};

}  // namespace

NpzMember read_npz_member(std::span<const std::byte> zip, const std::string& array,
                          const std::string& name) {
  return Archive(zip, name).read(array);
}

}  // namespace flow::io
