// NumPy's .npy: read versions 1-3, both orders and byte orders, any of our dtypes; write 1.0,
// C order, little-endian. bfloat16 is "V2", as the package ml_dtypes has it. Every file is hostile:
// sizes are checked before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/array.h"
#include "runtime/base/digest.h"
#include "runtime/base/file.h"

namespace flow::io {

/// Element types of files that DType lacks. They become int32, which has all their values.
enum class Narrow : uint8_t { kNo, kInt16, kUInt16 };

/// Bytes of an element in the file.
constexpr size_t stored_size(DType dtype, Narrow narrow) {
  return narrow == Narrow::kNo ? size_of(dtype) : sizeof(int16_t);
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

/// RunError where `bytes`, the first of a file or a record, are not those of an .npy.
void require_npy_magic(std::span<const std::byte> bytes, const std::string& name);

/// The magic and the longest header that is read, which is NumPy's own limit.
inline constexpr size_t kLongestNpyHeader = 12 + 10'000;

/// Reads a header from the first bytes of a file. `name` is for messages. RunError for a wrong
/// magic or version, a header that is no such dictionary, a dtype that we do not have (named),
/// a negative or overflowing shape, a truncated text.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name);

/// RunError unless `file_bytes` is what the header asks for.
void check_npy_length(const NpyHeader& header, size_t file_bytes, const std::string& name);

/// The array that `bytes`, a whole file, holds, in C order and this machine's byte order. RunError
/// when the file is truncated or has bytes beyond the array.
Array parse_npy(std::span<const std::byte> bytes, const std::string& name);

/// parse_npy of the file at `path`.
Array read_npy(const fs::path& path);

/// The array of a file, to be looked at: no copy where it lies in the file as it would in memory.
class MappedNpy {
 public:
  /// RunError as parse_npy.
  explicit MappedNpy(const fs::path& path);
  const ArrayView& view() const { return view_; }

  /// Calls `read`. RunError where the file has become shorter by then.
  template <typename Read>
  void recovering(Read read) const {
    file_.recovering(read);
  }

 private:
  MappedFile file_;
  Array copy_;
  ArrayView view_;  // of one of these
};

/// The header of a version 1.0 file, data begins on a multiple of 64. `grow` pads the first extent
/// so that it can be rewritten in place up to 20 digits.
std::string npy_header(DType dtype, const Shape& shape, bool grow = false);

/// The header and the elements.
void write_npy(const fs::path& path, const ArrayView& array);

/// `value.npy` of shape [n, ...], appended to as a run goes: data first, then the header, so that
/// numpy.load reads it at any moment, also after a crash. Appending allocates nothing.
class NpyStack {
 public:
  /// Creates the file (and its folders) for items of this dtype and shape; `concatenate`: items
  /// are joined along their first axis instead of stacked along a new one.
  NpyStack(const fs::path& path, DType dtype, Shape item_shape, bool concatenate = false);
  /// Opens one that a run left, keeping its first `length` entries of the first axis. RunError when
  /// it is not there, not of that dtype and shape, or shorter.
  static NpyStack resume(const fs::path& path, DType dtype, Shape item_shape, bool concatenate,
                         int64_t length);
  /// REQUIRES: dtype and shape are the item's; a concatenated item may have fewer rows.
  void append(const ArrayView& item);
  /// After the last append. RunError where the system could not keep what was written.
  void close() { file_.close(); }
  /// Keeps a digest of the data from here on, what is there included. RunError when that cannot be
  /// read.
  void keep_digest();
  int64_t length() const { return length_; }  // of the first axis
  size_t data_bytes() const { return static_cast<size_t>(length_) * entry_bytes_; }
  /// REQUIRES: it is kept.
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
  size_t entry_bytes_ = 0;    // of one index of the first axis
  std::string header_;        // as it stands in the file
  size_t digits_at_ = 0;      // where the first extent stands in the header
  std::string after_digits_;  // what follows it
  std::optional<ContentDigest> digest_;
};

}  // namespace flow::io
