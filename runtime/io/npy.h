// NumPy's .npy format. Versions 1 to 3 are read, in C and Fortran order, both byte orders and every
// dtype. Version 1.0 is written, in C order and little-endian. bfloat16 is "V2", as in the package
// ml_dtypes. Every file is treated as hostile: sizes are checked before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/array.h"
#include "runtime/base/digest.h"
#include "runtime/base/file.h"

namespace flow::io {

/// The element types of files that DType lacks. Those of 16 bits become int32, and uint32 becomes
/// int64, which can represent all their values. A uint64 becomes an int64 if it is at most 2^63-1.
enum class Narrow : uint8_t { kNo, kInt16, kUInt16, kUInt32, kUInt64 };

/// Returns the number of bytes of an element in the file.
constexpr size_t stored_size(DType dtype, Narrow narrow) {
  switch (narrow) {
    case Narrow::kInt16:
    case Narrow::kUInt16:
      return sizeof(int16_t);
    case Narrow::kUInt32:
      return sizeof(uint32_t);
    case Narrow::kUInt64:
      return sizeof(uint64_t);
    default:
      return size_of(dtype);
  }
}

struct NpyHeader {
  DType dtype = DType::kFloat32;
  Narrow narrow = Narrow::kNo;
  Shape shape;
  bool fortran_order = false;
  bool big_endian = false;
  size_t data_offset = 0;

  size_t element_bytes() const { return stored_size(dtype, narrow); }
  size_t data_bytes() const { return static_cast<size_t>(shape.elements()) * element_bytes(); }
};

/// Throws RunError if `bytes`, the start of a file or a record, are not the start of a .npy file.
void require_npy_magic(std::span<const std::byte> bytes, const std::string& name);

/// The size of the magic number and the longest header that is read, which is NumPy's limit.
inline constexpr size_t kLongestNpyHeader = 12 + 10'000;

/// Reads a header from the first bytes of a file. `name` appears in messages. Throws RunError for a
/// wrong magic number or version, a header that is not the expected dictionary, an unsupported
/// dtype (which the message names), a negative or overflowing shape, and truncated text.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name);

/// Throws RunError unless `file_bytes` is the length that the header requires.
void check_npy_length(const NpyHeader& header, size_t file_bytes, const std::string& name);

/// Reads the array of a whole file, `bytes`, into C order and this machine's byte order. Throws
/// RunError if the file is truncated or has bytes after the array.
Array parse_npy(std::span<const std::byte> bytes, const std::string& name);

/// Reads the file at `path` with parse_npy.
Array read_npy(const fs::path& path);

/// A read-only view of a file's array. The array is copied only if its form in the file differs
/// from the form in memory.
class MappedNpy {
 public:
  /// Throws RunError in the same cases as parse_npy.
  explicit MappedNpy(const fs::path& path);
  const ArrayView& view() const { return view_; }

  /// Calls `read`. Throws RunError if the file has become shorter since it was mapped.
  template <typename Read>
  void recovering(Read read) const {
    file_.recovering(read);
  }

 private:
  MappedFile file_;
  Array copy_;
  ArrayView view_;  // view of `file_` or `copy_`
};

/// Returns the header of a version 1.0 file, in which data begins at a multiple of 64 bytes. `grow`
/// pads the first extent so that it can be rewritten in place with up to 20 digits.
std::string npy_header(DType dtype, const Shape& shape, bool grow = false);

/// Writes the header and the elements.
void write_npy(const fs::path& path, const ArrayView& array);

/// A file `value.npy` of shape [n, ...] that grows during a run. Data is written before the header,
/// so that numpy.load can read the file at any moment, even after a crash. Appending allocates
/// nothing.
class NpyStack {
 public:
  /// Creates the file and its folders for items of this dtype and shape. If `concatenate` is true,
  /// items are joined along their first axis instead of stacked along a new one.
  NpyStack(const fs::path& path, DType dtype, Shape item_shape, bool concatenate = false);
  /// Opens a file of an earlier run and keeps the first `length` entries of its first axis. Throws
  /// RunError if the file is missing, has another dtype or shape, or is shorter.
  static NpyStack resume(const fs::path& path, DType dtype, Shape item_shape, bool concatenate,
                         int64_t length);
  /// Appends an item. REQUIRES: the dtype and shape are the item's; a concatenated item may have
  /// fewer rows.
  void append(const ArrayView& item);
  /// Closes the file after the last append. Throws RunError if the system could not store the data.
  void close() { file_.close(); }
  /// Starts a digest of the data, including the data that the file already contains. Throws
  /// RunError if that data cannot be read.
  void keep_digest();
  int64_t length() const { return length_; }  // extent of the first axis
  size_t data_bytes() const { return static_cast<size_t>(length_) * entry_bytes_; }
  /// REQUIRES: keep_digest() has been called.
  std::string digest() const { return digest_.value().text(); }
  const fs::path& path() const { return file_.path(); }

 private:
  NpyStack(File file, DType dtype, Shape item_shape, bool concatenate, int64_t length);
  void write_header();
  File file_;
  DType dtype_;
  Shape item_shape_;
  bool concatenate_;
  int64_t length_ = 0;
  size_t entry_bytes_ = 0;    // bytes per index of the first axis
  std::string header_;        // header as written in the file
  size_t digits_at_ = 0;      // offset of the first extent in the header
  std::string after_digits_;  // text that follows the first extent
  std::optional<ContentDigest> digest_;
};

}  // namespace flow::io
