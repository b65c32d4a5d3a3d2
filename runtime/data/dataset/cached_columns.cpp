// Writes the columns of a cache.
#include "runtime/data/dataset/cached_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/digest.h"
#include "runtime/plan/json/structs.h"
#include "runtime/plan/model/enum_names.h"

namespace flow::data {
namespace {

/// Returns the first row of each run of selected rows that come from the same file.
std::vector<int64_t> starts_of(const SelectedRows& column) {
  const std::vector<int64_t> files = column.source->file_starts();
  if (files.size() == 1) return {0};
  std::vector<int64_t> starts;
  ptrdiff_t last = -1;
  for (int64_t row = 0; row < column.ranges.size(); ++row) {
    const ptrdiff_t file = std::ranges::upper_bound(files, column.ranges[row]) - files.begin();
    if (file != last) starts.push_back(row);
    last = file;
  }
  return starts;
}

/// Returns which of the selected rows are in `of_source`, a sorted list of rows of the source.
std::vector<int64_t> selected(const RowRanges& ranges, const std::vector<int64_t>& of_source) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; !of_source.empty() && row < ranges.size(); ++row)
    if (std::ranges::binary_search(of_source, ranges[row])) rows.push_back(row);
  return rows;
}

RowDraws before_augment() {
  RowDraws draws;
  draws.augments = false;
  return draws;
}

}  // namespace

CachedKind cached_kind(const plan::Column& column) {
  using plan::CellType;
  if (!column.cell) return CachedKind::kNone;
  const CellType type = column.cell->type;
  if (type == CellType::kImage) return CachedKind::kImages;
  if (column.source != plan::SourceKind::kCsv || type == CellType::kText) return CachedKind::kNone;
  if (type == CellType::kInteger && column.cell->one_hot > 0) return CachedKind::kNone;
  return type == CellType::kCategory ? CachedKind::kCategories : CachedKind::kNumbers;
}

std::string cache_keys(const plan::Dataset& dataset, plan::Column column) {
  column.row_shape = {};
  column.scale = 1;
  column.mean = column.std = {};
  column.window.reset();
  column.learned_from.clear();
  if (column.image) column.image->augment.clear();
  const std::string text = plan::JsonWriter(plan::JsonWriter::Remarks::kLeftOut).write(column);
  return digest(text + std::string(plan::enum_name(dataset.on_bad_row)));
}

CachedColumnsWriting::CachedColumnsWriting(const plan::Dataset& dataset,
                                           std::span<const SelectedRows> columns, DecodePool* pool)
    : dataset_(dataset),
      columns_(columns),
      pool_(pool),
      scratch_(static_cast<size_t>(pool ? pool->size() : 1)) {}

bool CachedColumnsWriting::add_all() {
  for (size_t index = 0; index < columns_.size(); ++index)
    if (!add(index)) return false;
  return true;
}

/// Adds a column. Returns false if the size of its images is unknown.
bool CachedColumnsWriting::add(size_t index) {
  const plan::Column& column = dataset_.columns[index];
  if (kind(index) == CachedKind::kNone) return true;
  if (kind(index) == CachedKind::kImages) {
    const std::optional<Shape> shape = shape_of_images(index);
    const DType dtype = column.image->bits == 16 ? DType::kInt32 : DType::kUInt8;
    if (shape) parts_.push_back({index, {column.name, dtype, *shape}});
    return shape.has_value();
  }
  const SourceRows& source = *columns_[index].source;
  if (kind(index) == CachedKind::kNumbers)
    parts_.push_back({index, {column.name, source.element().dtype, Shape{source.row_elements()}}});
  else
    parts_.push_back({index, {column.name, DType::kInt32, {}}});
  if (has_missing(index))
    parts_.push_back(
        {index, {column.name + kMissingMarks, DType::kUInt8, Shape{cells_of_row(index)}}, true});
  return true;
}

std::vector<CacheColumn> CachedColumnsWriting::arrays() const {
  std::vector<CacheColumn> arrays;
  for (const Part& part : parts_) arrays.push_back(part.array);
  return arrays;
}

Json CachedColumnsWriting::write(CacheWriter& writer) {
  Json details = Json::object();
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].is_missing_marks) {
      write_missing(writer, i);
      continue;
    }
    Json& facts = details[dataset_.columns[parts_[i].index].name];
    facts = facts_of(parts_[i].index);
    facts["undecodable"] = write_values(writer, i);
  }
  return details;
}

Json CachedColumnsWriting::facts_of(size_t index) const {
  const SelectedRows& rows = columns_[index];
  Json facts = {{"keys", cache_keys(dataset_, dataset_.columns[index])},
                {"bad_rows", selected(rows.ranges, own_bad_rows(index))},
                {"file_starts", starts_of(rows)}};
  if (kind(index) == CachedKind::kCategories) facts["texts"] = categories(index).texts;
  return facts;
}

const CategoryCells& CachedColumnsWriting::categories(size_t index) const {
  return *columns_[index].source->categories();
}

/// Returns the bad rows of the source, without those that are bad only because their category is
/// not listed.
std::vector<int64_t> CachedColumnsWriting::own_bad_rows(size_t index) const {
  return kind(index) == CachedKind::kCategories ? categories(index).bad_rows
                                                : columns_[index].source->bad_rows();
}

int64_t CachedColumnsWriting::cells_of_row(size_t index) const {
  return kind(index) == CachedKind::kCategories ? 1 : columns_[index].source->row_elements();
}

bool CachedColumnsWriting::is_missing(size_t index, int64_t row, int64_t cell) const {
  if (kind(index) == CachedKind::kNumbers) return columns_[index].source->is_missing(row, cell);
  const std::vector<uint8_t>& marks = categories(index).missing;
  return !marks.empty() && marks[static_cast<size_t>(row)] != 0;
}

bool CachedColumnsWriting::has_missing(size_t index) const {
  const RowRanges& ranges = columns_[index].ranges;
  for (int64_t row = 0; row < ranges.size(); ++row)
    for (int64_t cell = 0; cell < cells_of_row(index); ++cell)
      if (is_missing(index, ranges[row], cell)) return true;
  return false;
}

void CachedColumnsWriting::write_missing(CacheWriter& writer, size_t i) const {
  const size_t index = parts_[i].index;
  const RowRanges& ranges = columns_[index].ranges;
  std::vector<std::byte> marks(static_cast<size_t>(cells_of_row(index)));
  for (int64_t row = 0; row < ranges.size(); ++row) {
    for (size_t cell = 0; cell < marks.size(); ++cell)
      marks[cell] = std::byte{is_missing(index, ranges[row], static_cast<int64_t>(cell))};
    writer.append(i, marks);
  }
}

/// Returns the shape of the first image that can be decoded.
std::optional<Shape> CachedColumnsWriting::shape_of_images(size_t index) {
  const SelectedRows& rows = columns_[index];
  std::optional<Shape> shape;
  rows.source->recovering([&] {
    for (int64_t row = 0; row < rows.ranges.size() && !shape; ++row) {
      try {
        rows.source->read(rows.ranges[row], before_augment(), scratch_[0]);
        const Image& image = scratch_[0].image;
        shape = Shape{image.channels, image.height, image.width};
      } catch (const BadRowError&) {
        // A later image may be good.
      }
    }
  });
  return shape;
}

/// Writes the values of a column. Returns the rows that cannot be decoded, which it fills with
/// zeros.
std::vector<int64_t> CachedColumnsWriting::write_values(CacheWriter& writer, size_t i) {
  const Part& part = parts_[i];
  const int64_t rows = columns_[part.index].ranges.size();
  const auto row_bytes = bytes_of(part.array.row_shape, part.array.dtype);
  const std::vector<std::byte> zeros(row_bytes);
  std::vector<int64_t> undecodable;
  std::vector<Row> chunk;
  for (int64_t first = 0; first < rows; first += std::ssize(chunk)) {
    chunk.resize(static_cast<size_t>(std::min<int64_t>(rows - first, 16 * std::ssize(scratch_))));
    read_chunk(part, first, chunk);
    for (size_t k = 0; k < chunk.size(); ++k) {
      writer.append(i, chunk[k].value_or(zeros));
      if (!chunk[k]) undecodable.push_back(first + static_cast<int64_t>(k));
    }
  }
  return undecodable;
}

void CachedColumnsWriting::read_chunk(const Part& part, int64_t first, std::vector<Row>& chunk) {
  const SourceRows& source = *columns_[part.index].source;
  const auto n = static_cast<int64_t>(chunk.size());
  const std::function<void(int64_t, int)> read = [&](int64_t k, int thread) {
    chunk[static_cast<size_t>(k)] =
        values_of(part, first + k, scratch_[static_cast<size_t>(thread)]);
  };
  source.recovering([&] {
    if (pool_ && source.is_decoded()) return pool_->for_each(n, read);
    for (int64_t k = 0; k < n; ++k) read(k, 0);
  });
}

CachedColumnsWriting::Row CachedColumnsWriting::values_of(const Part& part, int64_t row,
                                                          Scratch& scratch) const {
  const SelectedRows& column = columns_[part.index];
  const int64_t of_source = column.ranges[row];
  if (kind(part.index) == CachedKind::kCategories) {
    const auto& ids = categories(part.index).ids;
    const auto id = std::as_bytes(std::span(ids).subspan(static_cast<size_t>(of_source), 1));
    return std::vector(id.begin(), id.end());
  }
  try {
    const auto read = column.source->read(of_source, before_augment(), scratch);
    if (kind(part.index) == CachedKind::kImages)
      return values_of_image(part, of_source, scratch.image);
    return std::vector(read.begin(), read.end());
  } catch (const BadRowError&) {
    return std::nullopt;
  }
}

std::vector<std::byte> CachedColumnsWriting::values_of_image(const Part& part, int64_t of_source,
                                                             const Image& image) const {
  const Shape shape{image.channels, image.height, image.width};
  const plan::Column& column = dataset_.columns[part.index];
  if (shape != part.array.row_shape)
    throw RunError(
        fmt::format("{}: {}: the image has shape {}, but the first one has {}; a cache requires "
                    "one size",
                    column.where, columns_[part.index].source->row_text(of_source), shape.str(),
                    part.array.row_shape.str()),
        "add `size: [HEIGHT, WIDTH]` to the column, or remove `cache`");
  if (image.bits == 8) return image.data;
  const auto samples = image.samples<uint16_t>();
  const std::vector<int32_t> wide(samples.begin(), samples.end());
  const auto bytes = std::as_bytes(std::span(wide));
  return {bytes.begin(), bytes.end()};
}

}  // namespace flow::data
