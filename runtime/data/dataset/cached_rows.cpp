// Reads cached images, and finds the original rows for messages.
#include "runtime/data/dataset/cached_rows.h"

#include <algorithm>
#include <bit>

#include "runtime/data/sources/open_source.h"

namespace flow::data {

const SourceRows& OriginalFiles::source(size_t index) const {
  std::call_once(opened_, [this] { sources_ = open_sources(dataset_, {}, root_); });
  return *sources_[index];
}

int64_t OriginalRows::source_row(int64_t row) const {
  return RowRanges(files_->column(index_).rows, files_->source(index_).rows())[row];
}

std::string OriginalRows::row_text(int64_t row) const {
  return files_->source(index_).row_text(source_row(row));
}

RunError OriginalRows::bad_row(int64_t row) const {
  return files_->source(index_).bad_row(source_row(row));
}

CachedImages::CachedImages(io::Rows rows, CachedFacts facts, OriginalRows original)
    : rows_(std::move(rows)), facts_(std::move(facts)), original_(std::move(original)) {}

StoredElement CachedImages::element() const {
  if (rows_.dtype == DType::kUInt8) return {DType::kUInt8};
  return {DType::kInt32, io::Narrow::kUInt16, std::endian::native == std::endian::big};
}

void CachedImages::recovering(const std::function<void()>& read) const {
  if (!rows_.file) return read();
  rows_.file->recovering([&] { read(); });
}

std::span<const std::byte> CachedImages::read(int64_t row, const RowDraws&,
                                              Scratch& scratch) const {
  if (std::ranges::binary_search(facts_.undecodable, row)) throw BadRowError(bad_row(row));
  const bool wide = rows_.dtype != DType::kUInt8;
  Image& image = scratch.image;
  image.reshape(rows_.shape[1], rows_.shape[2], rows_.shape[3], wide ? 16 : 8);
  const size_t bytes = image.data.size() * (wide ? sizeof(int32_t) / sizeof(uint16_t) : 1);
  const auto stored = rows_.data.subspan(static_cast<size_t>(row) * bytes, bytes);
  if (!wide) {
    std::ranges::copy(stored, image.data.begin());
    return image.data;
  }
  const std::span values(reinterpret_cast<const int32_t*>(stored.data()), bytes / sizeof(int32_t));
  std::ranges::transform(values, image.samples<uint16_t>().begin(),
                         [](int32_t value) { return static_cast<uint16_t>(value); });
  return image.data;
}

}  // namespace flow::data
