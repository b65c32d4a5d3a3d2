// Reads tar headers (IEEE Std 1003.1, pax; GNU tar's manual, "Basic Tar Format").
#include "runtime/data/files/tar_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::data {

namespace {

constexpr uint64_t kTarBlock = 512;
constexpr uint64_t kMostExtended = uint64_t{1} << 20;  // bytes of an extended header

/// The position of a field in a header.
struct Place {
  size_t offset, size;
};
constexpr Place kName = {0, 100}, kSize = {124, 12}, kChecksum = {148, 8}, kMagic = {257, 8},
                kPrefix = {345, 155};
constexpr size_t kType = 156;

constexpr const char* kGetAgain = "get the file again; it is damaged or not a tar archive";
constexpr const char* kGetWhole = "get the file again; the copy is incomplete";

std::span<const std::byte> field(std::span<const std::byte> block, const Place& place) {
  return block.subspan(place.offset, place.size);
}

/// Returns the text of a field up to its first zero byte.
std::string_view text_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\0'));
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

uint64_t padded(uint64_t size) { return (size + kTarBlock - 1) / kTarBlock * kTarBlock; }

/// Returns the number of a text of digits, or nothing for other text and for numbers that do not
/// fit.
std::optional<uint64_t> digits(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Returns the number of a field of octal digits between spaces, which is 0 if there are none.
std::optional<uint64_t> octal_number(std::span<const std::byte> bytes) {
  std::string_view text = text_of(bytes);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  return text.empty() ? 0 : digits(text, 8);
}

/// Returns the number that GNU tar writes in binary form, most significant byte first, after a byte
/// 0x80. Returns nothing for other fields and for numbers of more than 64 bits.
std::optional<uint64_t> binary_number(std::span<const std::byte> bytes) {
  if (bytes[0] != std::byte{0x80} || bytes.size() <= sizeof(uint64_t)) return {};
  const std::span<const std::byte> low = bytes.last(sizeof(uint64_t));
  if (!is_zero(bytes.subspan(1, bytes.size() - 1 - low.size()))) return {};
  uint64_t value = 0;
  for (const std::byte byte : low) value = value << 8 | std::to_integer<uint64_t>(byte);
  return value;
}

/// Returns the name in a header. The prefix exists in the format of POSIX only; GNU tar stores
/// other data there.
std::string name_in(std::span<const std::byte> block) {
  const std::string_view name = text_of(field(block, kName));
  const std::string_view prefix = text_of(field(block, kPrefix));
  const bool posix = text_of(field(block, kMagic)) == "ustar" && !prefix.empty();
  return posix ? fmt::format("{}/{}", prefix, name) : std::string(name);
}

std::string shown(std::string_view name) { return fmt::format("member `{}`", shortened(name)); }

}  // namespace

struct TarReader::Header {
  char type = 0;
  uint64_t size = 0;
  std::string name;
};

RunError TarReader::error_at(uint64_t offset, const std::string& what,
                             const std::string& hint) const {
  return RunError(fmt::format("{}: offset {}: {}", name_, offset, what), hint);
}

bool TarReader::at_end(const Extended& extended) const {
  const std::span<const std::byte> rest = archive_.subspan(at_);
  const bool ends = rest.empty() || (rest.size() >= kTarBlock && is_zero(rest.first(kTarBlock)));
  if (!ends && rest.size() < kTarBlock)
    throw error_at(at_,
                   fmt::format("the end is missing: found {} bytes; expected a header of {}",
                               rest.size(), kTarBlock),
                   kGetWhole);
  if (!ends) return false;
  if (extended.any)
    throw error_at(at_, "the archive ends after an extended header; expected its member");
  // The end is two blocks of zeros, or the end of the file.
  const std::span<const std::byte> second = rest.subspan(std::min<size_t>(rest.size(), kTarBlock));
  if (!second.empty() && (second.size() < kTarBlock || !is_zero(second.first(kTarBlock))))
    throw error_at(at_, "found one block of zeros; expected two at the end of the archive");
  return true;
}

/// Historic programs added the bytes of a header as signed numbers, so both sums are valid.
void TarReader::require_checksum(std::span<const std::byte> block) const {
  const uint64_t expected = number(field(block, kChecksum), "checksum");
  uint64_t sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const bool inside = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    const auto byte = inside ? uint8_t{' '} : std::to_integer<uint8_t>(block[i]);
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  if (sum == expected || (signed_sum >= 0 && static_cast<uint64_t>(signed_sum) == expected)) return;
  const std::string text = at_ == 0 ? hint_for_text(archive_) : "";
  throw error_at(at_, fmt::format("wrong header checksum: found {}, expected {}", expected, sum),
                 text.empty() ? kGetAgain : text);
}

uint64_t TarReader::number(std::span<const std::byte> bytes, std::string_view what) const {
  std::optional<uint64_t> value = binary_number(bytes);
  if (!value) value = octal_number(bytes);
  if (value) return *value;
  const std::string text = at_ == 0 ? hint_for_text(archive_) : "";
  throw error_at(at_, fmt::format("invalid {} in a header; expected an octal number", what),
                 text.empty() ? kGetAgain : text);
}

TarReader::Header TarReader::read_header() const {
  const std::span<const std::byte> block = archive_.subspan(at_, kTarBlock);
  require_checksum(block);
  return {std::to_integer<char>(block[kType]), number(field(block, kSize), "size"), name_in(block)};
}

void TarReader::require_inside(uint64_t size, const std::string& member) const {
  const uint64_t rest = archive_.size() - at_ - kTarBlock;
  if (size > rest)
    throw error_at(
        at_, fmt::format("{} has {} bytes, but the archive ends after {}", member, size, rest),
        kGetWhole);
  if (padded(size) > rest)
    throw error_at(at_, fmt::format("the end is missing: {} ends inside its last block", member),
                   kGetWhole);
}

std::string_view TarReader::text_after(const Header& header) const {
  if (header.size > kMostExtended)
    throw error_at(at_, fmt::format("an extended header has {} bytes; expected at most {}",
                                    header.size, kMostExtended));
  require_inside(header.size, "an extended header");
  return {reinterpret_cast<const char*>(archive_.data() + at_ + kTarBlock), header.size};
}

void TarReader::set_pax(std::string_view key, std::string_view value, bool global,
                        Extended& extended) const {
  if (key.starts_with("GNU.sparse.")) extended.sparse = true;
  if (key != "path" && key != "size") return;
  if (global) throw error_at(at_, fmt::format("a global extended header sets `{}`", key));
  if (key == "path") {
    if (value.find('\0') != value.npos) throw error_at(at_, "a member name contains a zero byte");
    extended.path = value;
  } else {
    extended.size = digits(value, 10);
    if (!extended.size)
      throw error_at(at_,
                     fmt::format("`{}` is not a size in an extended header", shortened(value)));
  }
}

/// Reads the records "LENGTH KEY=VALUE\n", whose length counts the whole record.
void TarReader::read_pax(std::string_view text, bool global, Extended& extended) const {
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const auto length = digits(text.substr(0, space), 10);
    if (!length || *length < space + 2 || *length > text.size() || text[*length - 1] != '\n')
      throw error_at(at_, "a record of an extended header has a wrong length");
    const std::string_view record = text.substr(space + 1, *length - space - 2);
    const size_t equals = record.find('=');
    if (equals == 0 || equals == record.npos)
      throw error_at(at_, "a record of an extended header has no key");
    set_pax(record.substr(0, equals), record.substr(equals + 1), global, extended);
    text.remove_prefix(*length);
  }
}

/// Reads a header that describes later members. Returns false for the header of a member.
bool TarReader::extend(const Header& header, Extended& extended) {
  constexpr std::string_view kExtended = "xgLK";
  if (kExtended.find(header.type) == kExtended.npos) return false;
  const std::string_view text = text_after(header);
  extended.any |= header.type != 'g';
  if (header.type == 'x' || header.type == 'g') read_pax(text, header.type == 'g', extended);
  if (header.type == 'L' && !extended.path) extended.path = text.substr(0, text.find('\0'));
  // A header of type K has the long target of a link. The link's own header is then refused.
  at_ += kTarBlock + padded(header.size);
  return true;
}

void TarReader::require_plain(const Header& header, const Extended& extended,
                              const std::string& name) const {
  constexpr std::string_view kPlain(
      "0\0"
      "75",
      4),
      kLinks = "12", kDevices = "346";
  const bool sparse = header.type == 'S' || extended.sparse;
  if (!sparse && kPlain.find(header.type) != kPlain.npos) return;
  std::string kind = fmt::format("of the unknown type {:#04x}",
                                 static_cast<unsigned>(static_cast<unsigned char>(header.type)));
  if (sparse) kind = "a sparse file";
  if (kLinks.find(header.type) != kLinks.npos) kind = "a link";
  if (kDevices.find(header.type) != kDevices.npos) kind = "a device or a pipe";
  throw error_at(at_, fmt::format("{} is {}; expected a file", shown(name), kind),
                 "write the archive again with files and folders only");
}

void TarReader::require_safe(const std::string& name) const {
  if (name.empty()) throw error_at(at_, "a member has no name");
  if (name.starts_with('/'))
    throw error_at(at_, fmt::format("{} has an absolute name", shown(name)),
                   "write the archive again with relative names");
  const std::vector<std::string> parts = split(name, '/');
  if (std::ranges::find(parts, "..") != parts.end())
    throw error_at(at_, fmt::format("{} has `..` in its name", shown(name)),
                   "write the archive again with names inside one folder");
}

TarMember TarReader::member(const Header& header, const Extended& extended) {
  TarMember member;
  member.name = extended.path.value_or(header.name);
  require_safe(member.name);
  require_plain(header, extended, member.name);
  // The format of Unix version 7 has no type for folders.
  member.is_folder = header.type == '5' || (header.type == '\0' && member.name.ends_with('/'));
  member.header = at_;
  member.offset = at_ + kTarBlock;
  member.size = member.is_folder ? 0 : extended.size.value_or(header.size);
  require_inside(member.size, shown(member.name));
  at_ = member.offset + padded(member.size);
  return member;
}

std::optional<TarMember> TarReader::next() {
  Extended extended;
  while (!at_end(extended)) {
    const Header header = read_header();
    if (!extend(header, extended)) return member(header, extended);
  }
  return std::nullopt;
}

}  // namespace flow::data
