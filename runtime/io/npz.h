// NumPy's .npz: a zip archive of .npy files, read (every file is hostile: offsets and sizes are
// checked before anything is read or allocated) and written (stored as they are).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/npy.h"

namespace flow::io {

/// One file of an archive, unpacked.
struct NpzMember {
  std::span<const std::byte> bytes;
  std::unique_ptr<std::byte[]> memory;  // owns the bytes, where they were compressed
};

/// The directory of an archive. Of arrays of one name the last counts. What NumPy refuses is
/// refused; a comment at the end of the archive is ignored, as NumPy does.
class Npz {
 public:
  /// `zip` is the whole file, and outlives this; `name` is for messages. RunError where it is no
  /// archive, is damaged or larger than 4 GiB (zip64).
  Npz(std::span<const std::byte> zip, std::string name);

  /// The names of its arrays, sorted.
  std::vector<std::string> arrays() const;
  /// The header of an array, checked against the array's length. Nothing else is unpacked.
  /// RunError as from `read`.
  NpyHeader header(const std::string& array) const;
  /// An array, as an .npy; it was stored or deflated, and its checksum is checked. RunError where
  /// it is damaged or encrypted, there is none of that name, or its header is refused: then before
  /// the rest is unpacked.
  NpzMember read(const std::string& array) const;

 private:
  /// A file as the directory lists it.
  struct Listed {
    std::string_view name;
    uint32_t version = 0, flags = 0, method = 0, checksum = 0;
    uint32_t packed = 0, unpacked = 0, offset = 0;
  };

  [[noreturn]] void damaged(std::string_view what) const;
  [[noreturn]] void refuse_zip64() const;
  bool fits(uint64_t at, uint64_t length) const;
  size_t find_end() const;
  void list_files();
  void check_extra(std::string_view extra) const;
  const Listed& find(const std::string& array) const;
  NpyHeader header_of(const Listed& file, const std::string& array) const;
  NpzMember unpack(const Listed& file) const;
  void check_readable(const Listed& file) const;
  std::span<const std::byte> packed_bytes(const Listed& file) const;

  std::span<const std::byte> zip_;
  std::string name_;
  std::map<std::string_view, Listed> files_;  // by the name of the array
  std::vector<uint64_t> starts_;              // of all files, then of the directory, sorted
};

/// Writes an archive, its files stored as they are.
class NpzWriter {
 public:
  /// REQUIRES: `file` is empty, and outlives this.
  explicit NpzWriter(File& file) : file_(file) {}
  /// RunError where the archive becomes larger than 4 GiB. REQUIRES: each name is new; the dtype is
  /// not bfloat16.
  void add(const std::string& name, const ArrayView& array);
  /// Writes the directory, after the last array.
  void finish();

 private:
  /// A file of the archive.
  struct Member {
    std::string name;
    uint32_t checksum, bytes, offset;
  };

  uint32_t narrowed(uint64_t number) const;
  void write(const std::string& text);

  File& file_;
  uint64_t at_ = 0;
  std::vector<Member> members_;
};

}  // namespace flow::io
