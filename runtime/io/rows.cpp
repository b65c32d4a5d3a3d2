// Reads idx, .npy and .npz files as rows.
#include "runtime/io/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/io/gunzip.h"
#include "runtime/io/npz.h"

namespace flow::io {

namespace {

struct IdxHeader {
  DType dtype = DType::kUInt8;
  Narrow narrow = Narrow::kNo;
  Shape shape;
  size_t data_bytes() const {
    return static_cast<size_t>(shape.elements()) * stored_size(dtype, narrow);
  }
};

constexpr size_t kMagicBytes = 4;
constexpr int kIdxInt16 = 0x0B;

/// Returns the number of bytes of the extents that follow the magic number.
size_t extent_bytes(std::span<const std::byte> magic, const std::string& name) {
  const auto byte = [&](size_t i) { return std::to_integer<int>(magic[i]); };
  if (byte(0) != 0 || byte(1) != 0)
    throw RunError(fmt::format(
        "{} is not an idx file: begins with {:02x} {:02x} {:02x} {:02x}; expected 00 00", name,
        byte(0), byte(1), byte(2), byte(3)));
  if (byte(3) == 0) throw RunError(fmt::format("{} is an idx file without rows", name));
  return size_t{4} * static_cast<size_t>(byte(3));
}

DType idx_dtype(int code, const std::string& name) {
  switch (code) {
    case 0x08:
      return DType::kUInt8;
    case 0x09:
      return DType::kInt8;
    case kIdxInt16:  // converted to int32
    case 0x0C:
      return DType::kInt32;
    case 0x0D:
      return DType::kFloat32;
    case 0x0E:
      return DType::kFloat64;
    default:
      break;
  }
  throw RunError(fmt::format(
      "{} has unsupported idx element type {:#04x}; expected uint8 (0x08), int8 (0x09), "
      "int16 (0x0b), int32 (0x0c), float32 (0x0d) or float64 (0x0e)",
      name, code));
}

IdxHeader parse_idx_header(std::span<const std::byte> magic, std::span<const std::byte> extents,
                           const std::string& name) {
  IdxHeader header;
  const int code = std::to_integer<int>(magic[2]);
  header.dtype = idx_dtype(code, name);
  if (code == kIdxInt16) header.narrow = Narrow::kInt16;
  std::vector<int64_t> shape;
  for (size_t i = 0; i < extents.size(); i += 4) {
    int64_t extent = 0;
    for (size_t j = 0; j < 4; ++j) extent = extent << 8 | std::to_integer<int64_t>(extents[i + j]);
    shape.push_back(extent);
  }
  header.shape = Shape(std::move(shape));
  if (!header.shape.checked_elements())
    throw RunError(fmt::format("{} has a shape that is too large: {}", name, header.shape.str()));
  return header;
}

[[noreturn]] void wrong_length(const IdxHeader& header, const std::string& found, bool too_long,
                               const std::string& name) {
  throw RunError(fmt::format("{} is {}: {} of data; the header says {} of {}, {} bytes", name,
                             too_long ? "too long" : "truncated", found, header.shape.str(),
                             name_of(header.dtype), header.data_bytes()));
}

[[noreturn]] void truncated_header(const std::string& name) {
  throw RunError(name + " is truncated inside its header");
}

Rows plain_idx(MappedFile file, const std::string& name, const CheckShape& check) {
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < kMagicBytes) truncated_header(name);
  const size_t begin = kMagicBytes + extent_bytes(bytes, name);
  if (bytes.size() < begin) truncated_header(name);
  const IdxHeader header =
      parse_idx_header(bytes, bytes.subspan(kMagicBytes, begin - kMagicBytes), name);
  const std::span<const std::byte> data = bytes.subspan(begin);
  if (data.size() != header.data_bytes())
    wrong_length(header, fmt::format("{} bytes", data.size()), data.size() > header.data_bytes(),
                 name);
  check(header.shape);
  return {header.dtype, header.narrow, header.shape, true, data, std::move(file), nullptr};
}

Rows packed_idx(const MappedFile& file, const std::string& name, const CheckShape& check) {
  Gunzip gunzip(file.bytes(), name);
  std::array<std::byte, kMagicBytes> magic;
  if (gunzip.read(magic) < magic.size()) truncated_header(name);
  std::vector<std::byte> extents(extent_bytes(magic, name));
  if (gunzip.read(extents) < extents.size()) truncated_header(name);
  const IdxHeader header = parse_idx_header(magic, extents, name);
  const size_t wanted = header.data_bytes();
  if (wanted > Gunzip::bound(file.bytes().size()))
    wrong_length(header, fmt::format("{} bytes of gzip", file.bytes().size()), false, name);
  check(header.shape);
  Rows rows = {header.dtype,
               header.narrow,
               header.shape,
               true,
               {},
               std::nullopt,
               memory_for(wanted, file.bytes().size(), name)};
  const std::span<std::byte> data(rows.memory.get(), wanted);
  const size_t found = gunzip.read(data);
  if (found < wanted) wrong_length(header, fmt::format("{} bytes", found), false, name);
  if (!gunzip.at_end()) wrong_length(header, fmt::format("more than {} bytes", wanted), true, name);
  rows.data = data;
  return rows;
}

void check_header(const NpyHeader& header, const std::string& name, const CheckShape& check) {
  if (header.shape.rank() == 0) throw RunError(name + " is a scalar; expected an array with rows");
  check(header.shape);
}

/// Returns the rows of a .npy file in memory. They refer to `bytes` if the file is in C order, and
/// own a copy otherwise.
Rows npy_rows(std::span<const std::byte> bytes, const std::string& name, const CheckShape& check) {
  const NpyHeader header = parse_npy_header(bytes, name);
  check_npy_length(header, bytes.size(), name);
  check_header(header, name, check);
  Rows rows = {header.dtype, header.narrow, header.shape, header.big_endian,
               {},           std::nullopt,  nullptr};
  rows.data = bytes.subspan(header.data_offset);
  if (!header.fortran_order) return rows;
  const Array array = parse_npy(bytes, name);
  rows.memory = std::make_unique_for_overwrite<std::byte[]>(array.bytes().size());
  std::ranges::copy(array.bytes(), rows.memory.get());
  rows.data = {rows.memory.get(), array.bytes().size()};
  rows.big_endian = false;
  rows.narrow = Narrow::kNo;
  return rows;
}

}  // namespace

Rows read_idx_rows(const fs::path& path, const CheckShape& check) {
  MappedFile file(path);
  const std::string name = path.string();
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.empty()) throw RunError(name + " is empty");
  const bool packed =
      bytes.size() > 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
  return packed ? packed_idx(file, name, check) : plain_idx(std::move(file), name, check);
}

Rows read_npy_rows(const fs::path& path, const CheckShape& check) {
  MappedFile file(path);
  Rows rows = npy_rows(file.bytes(), path.string(), check);
  if (!rows.memory) rows.file = std::move(file);
  return rows;
}

Rows read_npz_rows(const fs::path& path, const std::string& array, const CheckShape& check) {
  MappedFile file(path);
  const Npz npz(file.bytes(), path.string());
  const std::string name = fmt::format("{}: `{}`", path.string(), array);
  check_header(npz.header(array), name, check);
  NpzMember member = npz.read(array);
  Rows rows = npy_rows(member.bytes, name, check);
  if (rows.memory) return rows;
  if (member.memory)
    rows.memory = std::move(member.memory);
  else
    rows.file = std::move(file);
  return rows;
}

}  // namespace flow::io
