// Maps rows of raw elements. Nothing is copied.
#include "runtime/data/files/raw_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/data/files/unpack.h"
#include "runtime/io/safetensors.h"

namespace flow::data {

namespace {

struct WiderType {
  std::string_view name;  // name in a job file
  std::string_view code;  // name in a .safetensors file
  ElementType type;
};

/// The types that become another dtype in memory.
constexpr std::array kWiderTypes = {
    WiderType{"int16", "I16", {DType::kInt32, io::Narrow::kInt16}},
    WiderType{"uint16", "U16", {DType::kInt32, io::Narrow::kUInt16}},
    WiderType{"uint32", "U32", {DType::kInt64, io::Narrow::kUInt32}},
    WiderType{"uint64", "U64", {DType::kInt64, io::Narrow::kUInt64}},
};

/// Returns the bytes of a row. Throws RunError if there are none, or too many to count.
size_t bytes_of_row(const Shape& row_shape, const ElementType& type, const std::string& name) {
  const auto elements = row_shape.checked_elements();
  if (!elements || *elements == 0)
    throw RunError(fmt::format("{}: rows of shape {} {}", name, row_shape.str(),
                               elements ? "have no elements" : "are too large"));
  return static_cast<size_t>(*elements) * io::stored_size(type.dtype, type.narrow);
}

Shape with_rows(int64_t rows, const Shape& row_shape) {
  std::vector<int64_t> extents = {rows};
  extents.insert(extents.end(), row_shape.begin(), row_shape.end());
  return Shape(std::move(extents));
}

io::Rows rows_of(MappedFile file, const ElementType& type, Shape shape, bool big_endian,
                 std::span<const std::byte> data) {
  return {type.dtype, type.narrow, std::move(shape), big_endian, data, std::move(file), nullptr};
}

ElementType element_type(const io::Safetensors::Entry& entry, const std::string& name) {
  if (entry.dtype) return {*entry.dtype};
  const auto found = std::ranges::find(kWiderTypes, entry.code, &WiderType::code);
  if (found == kWiderTypes.end())
    throw RunError(fmt::format("{} has the unsupported dtype {}", name, entry.code),
                   "convert the array to a dtype of flow, such as float32");
  return found->type;
}

std::string hint_for_missing(const io::Safetensors& arrays, const std::string& array) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : arrays.arrays()) names.push_back(name);
  if (names.empty()) return "the file has no arrays";
  if (const auto near = suggest(array, names); !near.empty())
    return fmt::format("use {}", quoted_alternatives(near));
  constexpr size_t kMost = 10;
  if (names.size() > kMost) return fmt::format("the file has {} arrays", names.size());
  return fmt::format("use {}", quoted_alternatives(names));
}

}  // namespace

std::optional<ElementType> parse_element_type(std::string_view name) {
  if (const auto dtype = parse_dtype(name)) return ElementType{*dtype};
  const auto found = std::ranges::find(kWiderTypes, name, &WiderType::name);
  if (found == kWiderTypes.end()) return std::nullopt;
  return found->type;
}

io::Rows read_bin_rows(const fs::path& path, const BinFormat& format, const Shape& row_shape,
                       const io::CheckShape& check) {
  const std::string name = path.string();
  const size_t row_bytes = bytes_of_row(row_shape, format.type, name);
  require_regular_file(path);
  MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < format.offset)
    throw RunError(fmt::format("{} has {} bytes; expected at least the offset {}", name,
                               bytes.size(), format.offset));
  const std::span<const std::byte> data = bytes.subspan(format.offset);
  if (data.size() % row_bytes != 0)
    throw RunError(
        fmt::format("{} has {} bytes of data after offset {}; expected rows of {} bytes, {} remain",
                    name, data.size(), format.offset, row_bytes, data.size() % row_bytes),
        "check `dtype`, `shape` and `offset`");
  Shape shape = with_rows(static_cast<int64_t>(data.size() / row_bytes), row_shape);
  check(shape);
  return rows_of(std::move(file), format.type, std::move(shape), format.big_endian, data);
}

io::Rows read_safetensors_rows(const fs::path& path, const std::string& array,
                               const io::CheckShape& check) {
  require_regular_file(path);
  MappedFile file(path);
  std::optional<io::Safetensors> arrays;
  file.recovering([&] { arrays.emplace(file.bytes(), path.string()); });
  const auto found = arrays->arrays().find(array);
  if (found == arrays->arrays().end())
    throw RunError(fmt::format("{} has no array `{}`", path.string(), shortened(array)),
                   hint_for_missing(*arrays, array));
  const io::Safetensors::Entry& entry = found->second;
  const std::string name = fmt::format("{}: `{}`", path.string(), array);
  const ElementType type = element_type(entry, name);
  if (entry.shape.rank() == 0) throw RunError(name + " is a scalar; expected an array with rows");
  check(entry.shape);
  const std::span<const std::byte> data = arrays->bytes_of(entry);
  return rows_of(std::move(file), type, entry.shape, false, data);
}

}  // namespace flow::data
