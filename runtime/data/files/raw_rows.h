// Rows of files of raw elements (`bin`) and of .safetensors files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/io/rows.h"

namespace flow::data {

/// The elements of a file: their dtype in memory, and the type that they have in the file.
struct ElementType {
  DType dtype = DType::kFloat32;
  io::Narrow narrow = io::Narrow::kNo;
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// Returns the element type with this name: the dtypes, and int16, uint16, uint32 and uint64.
/// Returns nothing for any other text.
std::optional<ElementType> parse_element_type(std::string_view name);

/// The form of a file of raw elements.
struct BinFormat {
  ElementType type;
  bool big_endian = false;
  uint64_t offset = 0;  // bytes before the first row
};

/// Maps a file of rows of `row_shape` without a header. Throws RunError if the file is not a
/// regular file, is shorter than the offset, or does not contain whole rows.
io::Rows read_bin_rows(const fs::path& path, const BinFormat& format, const Shape& row_shape,
                       const io::CheckShape& check);

/// Maps an array of a .safetensors file, whose first axis counts the rows. Throws RunError if the
/// file is damaged, has no such array, or if the array is a scalar or has an element type that is
/// not supported.
io::Rows read_safetensors_rows(const fs::path& path, const std::string& array,
                               const io::CheckShape& check);

}  // namespace flow::data
