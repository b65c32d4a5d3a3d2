// NumPy's .npz format: a zip archive of .npy files. When an archive is read, it is treated as
// hostile: offsets and sizes are checked before anything is read or allocated. Archives are written
// without compression.
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

/// One unpacked file of an archive.
struct NpzMember {
  std::span<const std::byte> bytes;
  std::unique_ptr<std::byte[]> memory;  // owns the bytes if they were compressed, else null
};

/// Reads an archive through its directory. If several arrays have the same name, the last one is
/// used. It rejects what NumPy rejects. Like NumPy, it ignores a comment at the end of the archive.
class Npz {
 public:
  /// `zip` is the whole file and must outlive this object. `name` appears in messages. Throws
  /// RunError if the file is not an archive, is damaged, or is larger than 4 GiB (zip64).
  Npz(std::span<const std::byte> zip, std::string name);

  /// Returns the names of the arrays, sorted.
  std::vector<std::string> arrays() const;
  /// Returns the header of an array, checked against the length of the array. Only the header is
  /// unpacked. Throws RunError in the same cases as `read`.
  NpyHeader header(const std::string& array) const;
  /// Returns an array as a .npy file. It may be stored or deflated, and its checksum is checked.
  /// Throws RunError if the array is missing, damaged or encrypted, or if its header is invalid; in
  /// the last case nothing after the header is unpacked.
  NpzMember read(const std::string& array) const;

 private:
  /// A file as listed in the directory.
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
  std::map<std::string_view, Listed> files_;  // indexed by the name of the array
  std::vector<uint64_t> starts_;              // sorted offsets of all files and of the directory
};

/// Writes an archive whose files are not compressed.
class NpzWriter {
 public:
  /// REQUIRES: `file` is empty and outlives this object.
  explicit NpzWriter(File& file) : file_(file) {}
  /// Adds an array. Throws RunError if the archive would become larger than 4 GiB. REQUIRES: the
  /// name is new and the dtype is not bfloat16.
  void add(const std::string& name, const ArrayView& array);
  /// Writes the directory. Called after the last array.
  void finish();

 private:
  /// A file that the archive contains.
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
