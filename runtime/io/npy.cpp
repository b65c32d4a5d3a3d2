// Reads and writes whole .npy files, and .npy files that grow along their first axis.
#include "runtime/io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "runtime/base/file_operations.h"
#include "runtime/io/elements.h"

namespace flow::io {

namespace {

void swap_bytes(std::span<std::byte> bytes, size_t element) {
  for (size_t i = 0; i < bytes.size(); i += element)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + element));
}

/// Copies an array in Fortran order, whose first axis varies fastest, to C order. The array with
/// its axes in reverse order is in C order.
void copy_fortran(const std::byte* from, const Shape& shape, size_t element, std::byte* to) {
  std::vector<int64_t> reversed(shape.extents().rbegin(), shape.extents().rend()), perm;
  for (size_t axis = reversed.size(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
  copy_permuted(from, Shape(std::move(reversed)), perm, element, to);
}

/// Widens elements of type From to int32. `from` is in this machine's byte order.
template <typename From>
void widen(const std::byte* from, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof value);
    to[i] = value;
  }
}

/// Copies the elements to C order and this machine's byte order, without widening them.
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
  if (header.dtype == DType::kBool)  // A C++ bool must be 0 or 1.
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
  // The byte of a bool in a file may have any value, so bools are copied.
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

namespace {

/// Returns the shape of a file that contains `length` entries of items that are stacked or joined.
Shape file_shape(const Shape& item, bool concatenate, int64_t length) {
  FLOW_CHECK(!concatenate || item.rank() > 0);
  std::vector<int64_t> extents = {length};
  extents.insert(extents.end(), item.begin() + (concatenate ? 1 : 0), item.end());
  return Shape(std::move(extents));
}

}  // namespace

NpyStack::NpyStack(File file, DType dtype, Shape item_shape, bool concatenate, int64_t length)
    : file_(std::move(file)),
      dtype_(dtype),
      item_shape_(std::move(item_shape)),
      concatenate_(concatenate),
      length_(length),
      header_(npy_header(dtype, file_shape(item_shape_, concatenate, 0), true)) {
  entry_bytes_ =
      static_cast<size_t>(item_shape_.elements(concatenate ? 1 : 0, item_shape_.rank())) *
      size_of(dtype);
  constexpr std::string_view kShape = "'shape': (";
  digits_at_ = header_.find(kShape) + kShape.size();
  after_digits_ = header_.substr(digits_at_ + 1, header_.find('}') - digits_at_);
}

NpyStack::NpyStack(const fs::path& path, DType dtype, Shape item_shape, bool concatenate)
    : NpyStack(File(), dtype, std::move(item_shape), concatenate, 0) {
  make_folders(path.parent_path());
  file_ = File::create(path);
  try {
    write_header();
  } catch (...) {
    // NumPy cannot read a file without its header.
    std::error_code error;
    if (fs::is_regular_file(fs::symlink_status(path, error))) remove_path(path);
    throw;
  }
}

NpyStack NpyStack::resume(const fs::path& path, DType dtype, Shape item_shape, bool concatenate,
                          int64_t length) {
  NpyHeader found;
  size_t present = 0;
  {
    const MappedFile file(path);
    found = parse_npy_header(file.bytes(), path.string());
    present = file.bytes().size();
  }
  NpyStack stack(File::open_update(path), dtype, std::move(item_shape), concatenate, length);
  const Shape wanted = file_shape(stack.item_shape_, concatenate, length);
  // The length is not compared, because a crash may have left data that the header does not count
  // yet.
  const size_t needed = stack.header_.size() + static_cast<size_t>(length) * stack.entry_bytes_;
  if (found.dtype != dtype || found.fortran_order || found.big_endian ||
      found.data_offset != stack.header_.size() || found.shape.rank() != wanted.rank() ||
      !std::equal(found.shape.begin() + 1, found.shape.end(), wanted.begin() + 1))
    throw RunError(fmt::format("cannot continue {}: found {} of {}; expected {} of {}",
                               path.string(), found.shape.str(), name_of(found.dtype), wanted.str(),
                               name_of(dtype)));
  if (found.shape[0] < length || present < needed)
    throw RunError(
        fmt::format("cannot continue {}: {}", path.string(),
                    found.shape[0] < length ? fmt::format("found {} entries; expected at least {}",
                                                          found.shape[0], length)
                                            : fmt::format("truncated after {} bytes", present)),
        "start a new run with another -o DIR; --load takes the weights of this run");
  stack.write_header();
  stack.file_.truncate(needed);
  return stack;
}

void NpyStack::append(const ArrayView& item) {
  FLOW_CHECK(item.dtype == dtype_ && item.shape.rank() == item_shape_.rank(), "{} in {}",
             item.shape.str(), path().string());
  for (int axis = 0; axis < item.shape.rank(); ++axis) {
    const bool fits = concatenate_ && axis == 0 ? item.shape[axis] <= item_shape_[axis]
                                                : item.shape[axis] == item_shape_[axis];
    FLOW_CHECK(fits, "{} in {}", item.shape.str(), path().string());
  }
  file_.write_at(header_.size() + static_cast<uint64_t>(length_) * entry_bytes_,
                 std::span(item.data, item.bytes()));
  if (digest_) digest_->add(std::span(item.data, item.bytes()));
  length_ += concatenate_ ? item.shape[0] : 1;
  write_header();
}

void NpyStack::keep_digest() {
  constexpr size_t kBlock = 1 << 20;
  digest_.emplace();
  std::vector<std::byte> block(std::min(kBlock, data_bytes()));
  for (size_t done = 0; done < data_bytes(); done += block.size()) {
    const std::span<std::byte> part(block.data(), std::min(block.size(), data_bytes() - done));
    if (file_.read_at(header_.size() + done, part) < part.size())
      throw RunError(fmt::format("{} shrank while it was being read", path().string()));
    digest_->add(part);
  }
}

void NpyStack::write_header() {
  char* const digits = header_.data() + digits_at_;
  char* const end = header_.data() + header_.size() - 1;  // the newline is not overwritten
  char* at = std::to_chars(digits, end, length_).ptr;
  at = std::copy(after_digits_.begin(), after_digits_.end(), at);
  std::fill(at, end, ' ');
  file_.write_at(0, std::as_bytes(std::span(header_)));
}

}  // namespace flow::io
