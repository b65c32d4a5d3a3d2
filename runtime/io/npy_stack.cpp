// A .npy file that grows along its first axis.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "runtime/base/file_operations.h"
#include "runtime/io/npy.h"

namespace flow::io {

namespace {

/// The shape of the file: `length` entries of items that are stacked or joined.
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
    // Without its header it is no file that NumPy reads.
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
  // A crash may have left data that the header does not count yet, so the length is not compared.
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
  char* const end = header_.data() + header_.size() - 1;  // the newline stays
  char* at = std::to_chars(digits, end, length_).ptr;
  at = std::copy(after_digits_.begin(), after_digits_.end(), at);
  std::fill(at, end, ' ');
  file_.write_at(0, std::as_bytes(std::span(header_)));
}

}  // namespace flow::io
