// Members of a tar archive in memory: ustar, pax, GNU and the older format of Unix version 7. An
// archive is treated as hostile: sizes, names and checksums are verified before anything is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace flow::data {

/// A file or a folder of an archive.
struct TarMember {
  std::string name;
  bool is_folder = false;
  uint64_t header = 0;            // offset of the header that describes the member itself
  uint64_t offset = 0, size = 0;  // position of the data in the archive
};

/// Reads the headers of an archive from the first to the last.
class TarReader {
 public:
  /// `name` appears in messages. Both arguments must outlive the object.
  TarReader(std::span<const std::byte> archive, const std::string& name)
      : archive_(archive), name_(name) {}

  /// Returns the next member, or nothing at the end. Throws RunError for a wrong checksum, a member
  /// past the end of the archive, a missing end, an invalid number, a damaged or too long extended
  /// header, and for links, devices, sparse files, absolute names and names with `..`.
  std::optional<TarMember> next();

  /// Returns the error "NAME: offset 512: WHAT".
  RunError error_at(uint64_t offset, const std::string& what, const std::string& hint = {}) const;

 private:
  /// What the headers before a member say about it.
  struct Extended {
    std::optional<std::string> path;
    std::optional<uint64_t> size;
    bool sparse = false, any = false;
  };
  struct Header;

  Header read_header() const;
  bool at_end(const Extended& extended) const;
  void require_checksum(std::span<const std::byte> block) const;
  uint64_t number(std::span<const std::byte> field, std::string_view what) const;
  void require_inside(uint64_t size, const std::string& member) const;
  std::string_view text_after(const Header& header) const;
  void read_pax(std::string_view text, bool global, Extended& extended) const;
  void set_pax(std::string_view key, std::string_view value, bool global, Extended& extended) const;
  bool extend(const Header& header, Extended& extended);
  TarMember member(const Header& header, const Extended& extended);
  void require_plain(const Header& header, const Extended& extended, const std::string& name) const;
  void require_safe(const std::string& name) const;

  std::span<const std::byte> archive_;
  const std::string& name_;
  uint64_t at_ = 0;  // offset of the next header
};

}  // namespace flow::data
