// Reads datasets and summarizes their columns.
#include "runtime/data/summary/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/data/dataset/column.h"
#include "runtime/data/dataset/learning.h"
#include "runtime/data/sources/category_rows.h"
#include "runtime/data/sources/chunked_sum.h"
#include "runtime/data/sources/column_files.h"
#include "runtime/data/summary/samples.h"
#include "runtime/io/convert.h"
#include "runtime/plan/model/enum_names.h"

namespace flow::data {
namespace {

/// Returns a dataset whose rows are those of the files, without scaling and augmentation.
plan::Dataset as_in_files(plan::Dataset dataset) {
  for (plan::Column& column : dataset.columns) {
    column.scale = 1;
    column.mean = column.std = {};
    if (column.image) column.image->augment.clear();
  }
  return dataset;
}

/// Returns the name of a column's type as a job file spells it.
std::string type_of(const plan::Column& column, DType dtype) {
  if (column.cell && column.cell->type != plan::CellType::kNpy)
    return std::string(plan::enum_name(column.cell->type));
  if (column.image) return "image";
  return is_float(dtype) ? "number" : dtype == DType::kBool ? "bool" : "integer";
}

/// Takes a number from the end of a text: "houses.csv:17" becomes "houses.csv".
std::optional<int64_t> take_number(std::string_view& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || !is_digits(text.substr(colon + 1))) return {};
  const auto number = whole_number(text.substr(colon + 1));
  if (number) text = text.substr(0, colon);
  return number;
}

/// Collects the summary of numbers in two passes over them.
class NumberCollector {
 public:
  void add(double value) {
    sum_.add(value);
    ++count_;
    summary_.min = std::min(summary_.min, value);
    summary_.max = std::max(summary_.max, value);
  }
  void end_first_pass() { summary_.mean = sum_.total() / static_cast<double>(count_); }
  void add_again(double value) {
    const double distance = value - summary_.mean;
    squares_.add(distance * distance);
  }
  std::optional<NumberSummary> summary() {
    if (count_ == 0) return {};
    summary_.std = std::sqrt(squares_.total() / static_cast<double>(count_));
    return summary_;
  }

 private:
  NumberSummary summary_{.min = std::numeric_limits<double>::infinity(),
                         .max = -std::numeric_limits<double>::infinity()};
  int64_t count_ = 0;
  ChunkedSum sum_, squares_;
};

bool learns_characters(const plan::Column& column) {
  return column.text && column.text->tokenizer.kind == plan::Tokenizer::Kind::kCharacters &&
         column.text->tokenizer.characters.empty();
}

}  // namespace

ListedBadRow parse_bad_row(std::string_view message, const std::vector<fs::path>& files,
                           std::string_view row_text) {
  std::vector<std::string> names = {std::string(row_text)};
  for (const fs::path& file : files) names.push_back(file.string());
  for (const std::string& name : names) {
    if (name.empty() || !message.starts_with(name)) continue;
    const size_t end = message.find(": ", name.size());
    if (end == message.npos) continue;
    std::string_view place = message.substr(0, end);
    ListedBadRow bad{
        .file = {}, .line = {}, .column = {}, .message = std::string(message.substr(end + 2))};
    bad.line = take_number(place);
    bad.column = bad.line ? take_number(place) : std::nullopt;
    if (bad.column) std::swap(bad.line, bad.column);
    bad.file = place;
    return bad;
  }
  return {.file = {}, .line = {}, .column = {}, .message = std::string(message)};
}

std::string ListedBadRow::text() const {
  std::string place = file;
  for (const std::optional<int64_t>& number : {line, column})
    if (number) place += fmt::format(":{}", *number);
  return place.empty() ? message : place + ": " + message;
}

DatasetReader::DatasetReader(plan::Dataset dataset, fs::path root, DecodePool& pool)
    : dataset_(as_in_files(std::move(dataset))),
      root_(std::move(root)),
      pool_(pool),
      columns_(open_columns(dataset_, {}, root_)),
      images_(columns_.size()) {
  const int64_t rows = common_length(dataset_, columns_);
  for (size_t i = 0; i < columns_.size(); ++i) {
    add_bad_rows(i, columns_[i].source->bad_rows());
    if (columns_[i].source->is_decoded()) decode_images(i);
  }
  good_ = RowSet(0, rows);
  if (bad_.empty()) return;
  std::vector<int64_t> good;
  for (int64_t row = 0; row < rows; ++row)
    if (!bad_.contains(row)) good.push_back(row);
  good_ = RowSet(std::move(good));
}

/// Adds bad rows of a source, which are in ascending order.
void DatasetReader::add_bad_rows(size_t column, std::span<const int64_t> bad) {
  const RowRanges& ranges = columns_[column].ranges;
  if (bad.empty()) return;
  for (int64_t row = 0; row < ranges.size(); ++row)
    if (std::ranges::binary_search(bad, ranges[row])) bad_.emplace(row, Bad{column, ranges[row]});
}

/// Decodes all images of a column, and adds those that cannot be decoded to the bad rows.
void DatasetReader::decode_images(size_t column) {
  const OpenColumn& images = columns_[column];
  const auto rows = static_cast<size_t>(images.ranges.size());
  ImageSizes& sizes = images_[column];
  sizes.stored.resize(rows);
  sizes.decoded.resize(rows);
  std::vector<int64_t> bad_rows(rows, -1), channels(rows);
  std::vector<Scratch> scratches(static_cast<size_t>(pool_.size()));
  const std::function<void(int64_t, int)> decode = [&](int64_t row, int thread) {
    const auto at = static_cast<size_t>(row);
    Scratch& scratch = scratches[static_cast<size_t>(thread)];
    try {
      sizes.stored[at] =
          images.source->stored_size(images.ranges[row], scratch).value_or(ImageSize{});
      images.source->read(images.ranges[row], {}, scratch);
      sizes.decoded[at] = scratch.image.size();
      channels[at] = scratch.image.channels;
    } catch (const BadRowError&) {
      bad_rows[at] = images.ranges[row];
    }
  };
  images.source->recovering([&] { pool_.for_each(images.ranges.size(), decode); });
  std::erase(bad_rows, -1);
  std::ranges::sort(bad_rows);
  sizes.channels = channels.empty() ? 0 : std::ranges::max(channels);
  add_bad_rows(column, bad_rows);
}

std::vector<ListedBadRow> DatasetReader::bad_rows(size_t most) const {
  std::vector<ListedBadRow> listed;
  std::vector<std::vector<fs::path>> files(columns_.size());
  for (const auto& [row, bad] : bad_) {
    if (listed.size() == most) break;
    const OpenColumn& column = columns_[bad.column];
    const bool are_images = column.source->is_decoded();
    if (!are_images && files[bad.column].empty()) files[bad.column] = files_of(column.plan, root_);
    const bool row_is_file = are_images || column.plan.csv == std::nullopt;
    listed.push_back(parse_bad_row(column.source->bad_row(bad.source_row).what(), files[bad.column],
                                   row_is_file ? column.source->row_text(bad.source_row) : ""));
  }
  return listed;
}

std::vector<int64_t> DatasetReader::source_rows(size_t column) const {
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(good_.size()));
  for (int64_t i = 0; i < good_.size(); ++i) rows.push_back(columns_[column].ranges[good_[i]]);
  return rows;
}

/// Visits the rows that are not bad as float64.
void DatasetReader::visit_rows(size_t column, const VisitRow& visit) const {
  const OpenColumn& open = columns_[column];
  const StoredElement type = open.source->element();
  const auto elements = static_cast<size_t>(open.source->row_elements());
  io::RowConverter converter(type.dtype, type.big_endian, {}, elements, type.narrow);
  std::vector<double> values(elements);
  Scratch scratch;
  open.source->recovering([&] {
    for (int64_t i = 0; i < good_.size(); ++i) {
      const int64_t row = open.ranges[good_[i]];
      converter.convert(open.source->read(row, {}, scratch).data(), DType::kFloat64,
                        reinterpret_cast<std::byte*>(values.data()));
      visit(row, values);
    }
  });
}

void DatasetReader::summarize_numbers(size_t column, ColumnSummary& summary) const {
  const SourceRows& source = *columns_[column].source;
  NumberCollector collector;
  visit_rows(column, [&](int64_t row, std::span<const double> values) {
    for (size_t k = 0; k < values.size(); ++k)
      if (source.is_missing(row, static_cast<int64_t>(k)))
        ++summary.missing;
      else if (std::isfinite(values[k]))
        collector.add(values[k]);
      else
        ++summary.nonfinite;
  });
  collector.end_first_pass();
  visit_rows(column, [&](int64_t row, std::span<const double> values) {
    for (size_t k = 0; k < values.size(); ++k)
      if (std::isfinite(values[k]) && !source.is_missing(row, static_cast<int64_t>(k)))
        collector.add_again(values[k]);
  });
  summary.numbers = collector.summary();
}

CategorySummary DatasetReader::categories_of(size_t column, int64_t& missing) const {
  const OpenColumn& open = columns_[column];
  const CategoryCells& cells = *open.source->categories();
  const std::vector<int64_t> rows = source_rows(column);
  std::map<std::string_view, int64_t> counts;
  for (const int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    if (!cells.missing.empty() && cells.missing[at] != 0)
      ++missing;
    else
      ++counts[cells.texts[static_cast<size_t>(cells.ids[at])]];
  }
  CategorySummary summary;
  if (auto listed = listed_categories(open.plan, root_)) {
    summary.names = *std::move(listed);
  } else {
    LearnedColumn learned;
    open.source->learn(rows, learned);
    summary.names = learned.categories.value();
  }
  for (const std::string& name : summary.names) summary.counts.push_back(counts[name]);
  summary.others = static_cast<int64_t>(rows.size()) - missing -
                   std::accumulate(summary.counts.begin(), summary.counts.end(), int64_t{0});
  return summary;
}

std::vector<std::optional<int64_t>> DatasetReader::shape_of(size_t column) const {
  const OpenColumn& open = columns_[column];
  std::vector<std::optional<int64_t>> shape;
  if (open.source->is_decoded()) {
    shape = {images_[column].channels, {}, {}};
    std::optional<ImageSize> size;
    bool same = true;
    for (int64_t i = 0; i < good_.size(); ++i) {
      const ImageSize& one = images_[column].decoded[static_cast<size_t>(good_[i])];
      same = same && one == size.value_or(one);
      size = one;
    }
    if (size && same) shape = {images_[column].channels, size->height, size->width};
  } else if (const int64_t elements = open.source->row_elements(); elements != 1) {
    const Shape known = open.plan.source_row_shape();
    if (known.rank() > 0 && known.elements() == elements)
      shape.assign(known.begin(), known.end());
    else
      shape = {elements};
  }
  if (open.plan.window) shape.insert(shape.begin(), open.plan.window->length);
  return shape;
}

ColumnSummary DatasetReader::summary_of(size_t column) const {
  const OpenColumn& open = columns_[column];
  ColumnSummary summary{.name = open.plan.name,
                        .type = type_of(open.plan, open.source->element().dtype),
                        .shape = shape_of(column),
                        .numbers = {},
                        .categories = {},
                        .sizes = {}};
  if (open.source->categories()) {
    summary.categories = categories_of(column, summary.missing);
  } else if (open.source->is_decoded()) {
    for (int64_t i = 0; i < good_.size(); ++i) {
      const ImageSize& size = images_[column].stored[static_cast<size_t>(good_[i])];
      const auto pixels = [](const ImageSize& of) { return of.height * of.width; };
      if (!summary.sizes) summary.sizes = {size, size};
      if (pixels(size) < pixels(summary.sizes->smallest)) summary.sizes->smallest = size;
      if (pixels(size) > pixels(summary.sizes->largest)) summary.sizes->largest = size;
    }
  } else if (learns_characters(open.plan)) {
    LearnedColumn learned;
    open.source->learn(source_rows(column), learned);
    summary.categories = CategorySummary{learned.categories.value(), {}, 0};
  } else {
    summarize_numbers(column, summary);
  }
  return summary;
}

DatasetSummary DatasetReader::summary() const {
  DatasetSummary summary{.name = dataset_.name,
                         .rows = good_.size(),
                         .bad_rows = static_cast<int64_t>(bad_.size()),
                         .parts = {},
                         .columns = {}};
  if (dataset_.split && good_.size() > 0)
    for (const plan::SplitPart& part : dataset_.split->parts)
      summary.parts.emplace_back(part.name,
                                 rows_of_part(dataset_, part.name, columns_, good_).size());
  for (size_t i = 0; i < columns_.size(); ++i) summary.columns.push_back(summary_of(i));
  return summary;
}

/// Returns the number of rows or windows of a column, at most `most`.
int64_t DatasetReader::sample_rows(size_t column, int64_t most) const {
  const auto& window = columns_[column].plan.window;
  return std::min(most, window ? windows_in(*window, good_.size()) : good_.size());
}

/// Reads a row or window of a column as float64, and sets its shape.
std::vector<double> DatasetReader::sample(size_t column, int64_t row, Shape& shape) const {
  const OpenColumn& open = columns_[column];
  const StoredElement type = open.source->element();
  const auto& window = open.plan.window;
  const int64_t first = window ? row * window->stride + window->shift : row;
  std::vector<double> values;
  Scratch scratch;
  open.source->recovering([&] {
    for (int64_t i = first; i < first + (window ? window->length : 1); ++i) {
      const auto bytes = open.source->read(open.ranges[good_[i]], {}, scratch);
      const size_t elements = bytes.size() / type.bytes();
      values.resize(values.size() + elements);
      io::RowConverter(type.dtype, type.big_endian, {}, elements, type.narrow)
          .convert(bytes.data(), DType::kFloat64,
                   reinterpret_cast<std::byte*>(values.data() + values.size() - elements));
    }
  });
  shape = open.source->is_decoded()
              ? Shape{scratch.image.channels, scratch.image.height, scratch.image.width}
              : open.plan.row_shape;
  if (shape.elements() != static_cast<int64_t>(values.size())) shape = {};
  return values;
}

/// Writes the first rows of a column of images or texts. Returns the number of files.
int64_t DatasetReader::write_column(size_t column, const fs::path& folder, int64_t count) const {
  const OpenColumn& open = columns_[column];
  const DType dtype = open.source->element().dtype;
  const bool is_text = is_shown_as_text(open.plan);
  if (open.source->categories() || (!is_text && dtype != DType::kUInt8 && !open.plan.image))
    return 0;
  const int64_t rows = sample_rows(column, count);
  std::optional<TextDecoder> decoder;  // ids are code points if characters are to be learned
  if (is_text) decoder.emplace(open.plan, LearnedColumn(), root_);
  for (int64_t row = 0; row < rows; ++row) {
    Shape shape;
    const std::vector<double> values = sample(column, row, shape);
    if (is_text)
      write_text_sample(folder, row, decoder->text(values));
    else if (is_shown_as_image(open.plan, shape, dtype))
      write_image_sample(folder, row, shape, open.plan.image ? open.plan.image->bits : 8, values);
    else
      return 0;
  }
  return rows;
}

int64_t DatasetReader::write_samples(const fs::path& folder, int64_t count) const {
  int64_t files = 0;
  for (size_t i = 0; i < columns_.size(); ++i)
    files += write_column(i, folder / columns_[i].plan.name, count);
  return files;
}

}  // namespace flow::data
