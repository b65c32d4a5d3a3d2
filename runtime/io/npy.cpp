// Whole .npy files, read and written.
#include "runtime/io/npy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/io/permuted.h"

namespace flow::io {

namespace {

void swap_bytes(std::span<std::byte> bytes, size_t element) {
  for (size_t i = 0; i < bytes.size(); i += element)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + element));
}

/// Copies an array whose first axis runs fastest into one whose last does: with its axes in reverse
/// order it is in C order.
void copy_fortran(const std::byte* from, const Shape& shape, size_t element, std::byte* to) {
  std::vector<int64_t> reversed(shape.extents().rbegin(), shape.extents().rend()), perm;
  for (size_t axis = reversed.size(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
  copy_permuted(from, Shape(std::move(reversed)), perm, element, to);
}

/// `from`: in this machine's byte order.
template <typename From>
void widen(const std::byte* from, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof value);
    to[i] = value;
  }
}

/// The elements in C order and this machine's byte order, as wide as they are in the file.
void copy_stored(const NpyHeader& header, const std::byte* data, std::span<std::byte> out) {
  const size_t element = header.element_bytes();
  if (header.fortran_order)
    copy_fortran(data, header.shape, element, out.data());
  else if (!out.empty())
    std::memcpy(out.data(), data, out.size());
  if (header.big_endian && element > 1) swap_bytes(out, element);
}

}  // namespace

Array parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  const NpyHeader header = parse_npy_header(bytes, name);
  check_npy_length(header, bytes.size(), name);
  Array array(header.dtype, header.shape);
  const std::span<std::byte> out = array.bytes();
  const std::byte* data = bytes.data() + header.data_offset;
  if (header.narrow == Narrow::kNo) {
    copy_stored(header, data, out);
  } else {
    std::vector<std::byte> stored(header.data_bytes());
    copy_stored(header, data, stored);
    if (header.narrow == Narrow::kInt16)
      widen<int16_t>(stored.data(), array.as<int32_t>());
    else
      widen<uint16_t>(stored.data(), array.as<int32_t>());
  }
  if (header.dtype == DType::kBool)  // any other byte would be no C++ bool
    for (std::byte& byte : out) byte = byte == std::byte{0} ? byte : std::byte{1};
  return array;
}

Array read_npy(const fs::path& path) {
  const MappedFile file(path);
  return parse_npy(file.bytes(), path.string());
}

MappedNpy::MappedNpy(const fs::path& path) : file_(path) {
  const NpyHeader header = parse_npy_header(file_.bytes(), path.string());
  check_npy_length(header, file_.bytes().size(), path.string());
  const std::byte* data = file_.bytes().data() + header.data_offset;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % size_of(header.dtype) == 0;
  // A byte of a bool may be any.
  if (aligned && !header.fortran_order && !header.big_endian && header.dtype != DType::kBool &&
      header.narrow == Narrow::kNo) {
    view_ = {header.dtype, header.shape, data};
    return;
  }
  copy_ = parse_npy(file_.bytes(), path.string());
  view_ = copy_.view();
}

void write_npy(const fs::path& path, const ArrayView& array) {
  File file = File::create(path);
  file.write(npy_header(array.dtype, array.shape));
  file.write(std::span(array.data, array.bytes()));
  file.close();
}

}  // namespace flow::io
