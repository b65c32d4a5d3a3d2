// Reads and writes archives as described in APPNOTE.TXT of PKWARE. The central directory at the end
// lists the files and their offsets; the headers before the files are only skipped. Files are
// written without compression.
#include "runtime/io/npz.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/gunzip.h"

namespace flow::io {

namespace {

constexpr uint32_t kEndMark = 0x06054b50, kDirectoryMark = 0x02014b50, kFileMark = 0x04034b50;
constexpr size_t kEndBytes = 22, kDirectoryBytes = 46, kFileBytes = 30;
constexpr uint32_t kZip64 = 0xffffffff;
constexpr uint32_t kStored = 0, kDeflated = 8;  // compression methods
constexpr std::string_view kSuffix = ".npy";

/// Reads little-endian numbers from a record of the archive, which begins with a mark.
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

}  // namespace

Npz::Npz(std::span<const std::byte> zip, std::string name) : zip_(zip), name_(std::move(name)) {
  list_files();
}

std::vector<std::string> Npz::arrays() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.emplace_back(name);
  return names;
}

NpyHeader Npz::header(const std::string& array) const { return header_of(find(array), array); }

NpzMember Npz::read(const std::string& array) const {
  const Listed& file = find(array);
  // Checks the header first, so that an array with an invalid header is not unpacked.
  header_of(file, array);
  return unpack(file);
}

const Npz::Listed& Npz::find(const std::string& array) const {
  if (const auto found = files_.find(array); found != files_.end()) return found->second;
  throw RunError(fmt::format("{} has no array `{}`", name_, array),
                 files_.empty() ? "the file has no arrays"
                                : fmt::format("use {}", quoted_alternatives(arrays())));
}

void Npz::damaged(std::string_view what) const {
  throw RunError(fmt::format("{} is not a valid .npz: {}", name_, what), hint_for_text(zip_));
}

bool Npz::fits(uint64_t at, uint64_t length) const {
  return at <= zip_.size() && length <= zip_.size() - at;
}

/// Returns the offset of the record that ends the archive. Only a comment may follow it.
size_t Npz::find_end() const {
  constexpr size_t kLongestComment = 65535;
  if (zip_.size() < kEndBytes) damaged("too short for a zip archive");
  const size_t last = zip_.size() - kEndBytes;
  const size_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    const Record end(zip_, at);
    if (end.word(0) == kEndMark && at + kEndBytes + end.half(20) == zip_.size()) return at;
  }
  damaged("the zip end record is missing");
}

void Npz::list_files() {
  const size_t end_at = find_end();
  const Record end(zip_, end_at);
  const uint32_t count = end.half(10), bytes = end.word(12), begin = end.word(16);
  if (count == 0xffff || bytes == kZip64 || begin == kZip64) refuse_zip64();
  if (uint64_t{begin} + bytes != end_at) damaged("the zip directory is out of range");
  // NumPy recognizes an archive by its first bytes.
  if (const uint32_t mark = Record(zip_, 0).word(0); mark != kFileMark && mark != kEndMark)
    damaged("it does not begin with a file");
  uint64_t at = begin;
  for (uint32_t i = 0; i < count; ++i) {
    if (at + kDirectoryBytes > end_at || Record(zip_, at).word(0) != kDirectoryMark)
      damaged("the zip directory is truncated");
    const Record entry(zip_, at);
    const size_t name = entry.half(28), extra = entry.half(30), rest = extra + entry.half(32);
    if (at + kDirectoryBytes + name + rest > end_at) damaged("the zip directory is truncated");
    check_extra(entry.text(kDirectoryBytes + name, extra));
    const Listed file{entry.text(kDirectoryBytes, name),
                      entry.half(6) & 0xff,
                      entry.half(8),
                      entry.half(10),
                      entry.word(16),
                      entry.word(20),
                      entry.word(24),
                      entry.word(42)};
    if (file.name.find('\0') != file.name.npos) damaged("a name contains a zero byte");
    starts_.push_back(file.offset);
    if (file.name.ends_with(kSuffix))
      files_[file.name.substr(0, file.name.size() - kSuffix.size())] = file;
    at += kDirectoryBytes + name + rest;
  }
  if (at != end_at) damaged("the zip directory has more entries than the archive");
  starts_.push_back(begin);
  std::ranges::sort(starts_);
}

/// Checks the lengths that the parts of an extra field state.
void Npz::check_extra(std::string_view extra) const {
  const auto byte = [&](size_t i) { return size_t{static_cast<unsigned char>(extra[i])}; };
  while (extra.size() >= 4) {
    const size_t length = 4 + (byte(2) | byte(3) << 8);
    if (length > extra.size()) damaged("an extra field of the zip directory is truncated");
    extra.remove_prefix(length);
  }
}

void Npz::refuse_zip64() const {
  throw RunError(fmt::format("{} is a zip64 archive, which is not supported", name_),
                 "save the array as an .npy");
}

NpyHeader Npz::header_of(const Listed& file, const std::string& array) const {
  const std::string name = fmt::format("{}: `{}`", name_, array);
  std::span<const std::byte> start = packed_bytes(file);
  std::vector<std::byte> unpacked;
  if (file.method == kDeflated)
    start = unpacked = inflate_start(start, std::min<size_t>(file.unpacked, kLongestNpyHeader));
  const NpyHeader header = parse_npy_header(start, name);
  check_npy_length(header, file.unpacked, name);
  return header;
}

NpzMember Npz::unpack(const Listed& file) const {
  NpzMember member;
  member.bytes = packed_bytes(file);
  if (file.method == kDeflated) {
    member.memory = inflate_raw(member.bytes, file.unpacked, name_);
    member.bytes = {member.memory.get(), file.unpacked};
  }
  if (zip_checksum(member.bytes) != file.checksum)
    throw RunError(
        fmt::format("{} is damaged: the checksum of `{}` does not match", name_, file.name));
  return member;
}

void Npz::check_readable(const Listed& file) const {
  if (file.packed == kZip64 || file.unpacked == kZip64 || file.offset == kZip64) refuse_zip64();
  constexpr uint32_t kEncrypted = 1 | 1 << 6, kPatches = 1 << 5, kNewestVersion = 63;
  if (file.flags & kEncrypted)
    throw RunError(fmt::format("{}: `{}` is encrypted", name_, file.name));
  if (file.flags & kPatches || file.version > kNewestVersion)
    damaged(fmt::format("`{}` requires features that no reader of NumPy has", file.name));
  if (file.method != kStored && file.method != kDeflated)
    throw RunError(fmt::format("{}: `{}` uses compression method {}, which is not supported", name_,
                               file.name, file.method),
                   "save it with numpy.savez or numpy.savez_compressed");
  if (file.method == kStored && file.packed != file.unpacked)
    damaged("a stored file has two different sizes");
}

std::span<const std::byte> Npz::packed_bytes(const Listed& file) const {
  check_readable(file);
  if (!fits(file.offset, kFileBytes) || Record(zip_, file.offset).word(0) != kFileMark)
    damaged("a file does not start where the zip directory says");
  const Record header(zip_, file.offset);
  const size_t name_length = header.half(26);
  const uint64_t begin = uint64_t{file.offset} + kFileBytes + name_length + header.half(28);
  if (!fits(begin, file.packed)) damaged("a file is truncated");
  const auto next = std::ranges::upper_bound(starts_, file.offset);
  if (next == starts_.end() || begin + file.packed > *next) damaged("files overlap");
  if (const std::string_view name = header.text(kFileBytes, name_length); name != file.name)
    damaged(fmt::format("the zip directory says `{}`, the file header `{}`", file.name, name));
  return zip_.subspan(begin, file.packed);
}

namespace {

constexpr uint32_t kVersion = 20, kUtf8Names = 0x800, kFirstDay = 0x21;  // 1980-01-01

/// Builds a record of consecutive little-endian numbers.
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
  /// Adds the fields that both headers of a file contain, from the version to the sizes.
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
