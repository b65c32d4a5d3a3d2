// Reads CSV files and makes rows of their columns.
#include "runtime/data/sources/csv_columns.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/data/sources/category_rows.h"
#include "runtime/data/sources/column_files.h"
#include "runtime/data/sources/image_rows.h"
#include "runtime/data/sources/number_rows.h"
#include "runtime/data/sources/text_rows.h"

namespace flow::data {
namespace {

std::optional<char> character_of(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text.front());
}

CsvType type_of(plan::CellType type) {
  switch (type) {
    case plan::CellType::kInteger:
      return CsvType::kInteger;
    case plan::CellType::kBool:
      return CsvType::kBool;
    case plan::CellType::kCategory:
      return CsvType::kCategory;
    case plan::CellType::kText:
      return CsvType::kText;
    case plan::CellType::kImage:
      return CsvType::kPath;
    default:
      return CsvType::kNumber;
  }
}

CsvRequest request_of(const plan::Column& column) {
  const plan::CsvFormat& csv = *column.csv;
  CsvRequest request{
      .columns = csv.columns,
      .list = !csv.columns.empty(),
      .type = type_of(column.cell->type),
      .missing_values = column.cell->missing_values,
      .missing_allowed = column.cell->missing.kind != plan::Replacement::Kind::kError};
  if (!request.list) request.columns = {csv.column.empty() ? column.name : csv.column};
  return request;
}

/// The files of several columns and what was read from them.
class CsvFiles {
 public:
  explicit CsvFiles(CsvSource files) : source(std::move(files)), table(source.read()) {}

  /// Returns the error of a bad row. A caller that asks for a second one is probably listing all of
  /// them, so from then on each pass over the files finds the errors of many rows.
  RunError bad_row(int64_t row) {
    const std::lock_guard lock(mutex_);
    if (const auto known = errors_.find(row); known != errors_.end()) return known->second;
    constexpr ptrdiff_t kTogether = 1000;
    const auto first = std::ranges::lower_bound(table.bad_rows, row);
    const auto count = errors_.empty() ? 1 : std::min(table.bad_rows.end() - first, kTogether);
    const std::span<const int64_t> rows(first, static_cast<size_t>(count));
    const std::vector<RunError> errors = source.bad_rows(rows);
    errors_.clear();
    for (size_t i = 0; i < rows.size(); ++i) errors_.emplace(rows[i], errors[i]);
    return errors_.at(row);
  }

  const CsvSource source;
  CsvTable table;

 private:
  std::mutex mutex_;
  std::map<int64_t, RunError> errors_;
};
using SharedCsv = std::shared_ptr<CsvFiles>;

/// The images that a column of paths names.
class CsvImages : public ImageFiles {
 public:
  CsvImages(const plan::Column& column, const fs::path& root, SharedCsv shared, size_t request)
      : shared_(std::move(shared)), request_(request) {
    for (const fs::path& file : shared_->source.files())
      folders_.push_back(column.image->root.empty() ? file.parent_path()
                                                    : root / column.image->root);
  }

  int64_t rows() const override { return shared_->table.rows; }
  std::span<const std::byte> bytes(int64_t row, std::vector<std::byte>& memory) const override {
    return read_image_file(path_of(row), row_text(row), memory);
  }
  std::string row_text(int64_t row) const override {
    return std::string(shared_->table.columns[request_].text(static_cast<size_t>(row)));
  }
  std::vector<int64_t> file_starts() const override { return shared_->table.first_rows; }
  std::vector<fs::path> row_files() const override {
    std::vector<fs::path> files;
    for (int64_t row = 0; row < rows(); ++row)
      if (!row_text(row).empty()) files.push_back(path_of(row));
    return files;
  }
  std::vector<int64_t> bad_rows() const override { return shared_->table.bad_rows; }
  RunError bad_row(int64_t row) const override { return shared_->bad_row(row); }

 private:
  fs::path path_of(int64_t row) const {
    const std::vector<int64_t>& starts = shared_->table.first_rows;
    const auto file = std::ranges::upper_bound(starts, row) - starts.begin() - 1;
    return folders_[static_cast<size_t>(file)] / row_text(row);
  }

  SharedCsv shared_;
  size_t request_;
  std::vector<fs::path> folders_;  // by file
};

std::shared_ptr<SourceRows> make_rows(const plan::Column& column, const fs::path& root,
                                      const SharedCsv& shared, size_t request) {
  const CsvTable& table = shared->table;
  CsvColumn& cells = shared->table.columns[request];
  const CellPlace place = [shared, request](int64_t row) {
    return shared->source.place(row, request);
  };
  const auto bad_row = [shared](int64_t row) { return shared->bad_row(row); };
  switch (column.cell->type) {
    case plan::CellType::kText:
      return open_text_cells(
          column, root,
          [&](const auto& use) {
            for (size_t i = 0; i < cells.texts.size(); ++i) use(cells.text(i));
          },
          place, table.bad_rows, bad_row, table.first_rows);
    case plan::CellType::kImage:
      return std::make_shared<ImageRows>(
          *column.image, std::make_unique<CsvImages>(column, root, shared, request));
    case plan::CellType::kCategory:
      return std::make_shared<CategoryRows>(
          CategoryCells{std::move(cells.ids), std::move(cells.categories), std::move(cells.missing),
                        table.bad_rows, table.first_rows},
          *column.cell, listed_categories(column, root), place, bad_row);
    default:
      break;
  }
  NumberCells numbers{{}, cells.width, std::move(cells.missing), table.bad_rows, table.first_rows};
  if (column.cell->type == plan::CellType::kNumber)
    numbers.values = std::move(cells.numbers);
  else
    numbers.values = std::move(cells.integers);
  return std::make_shared<NumberRows>(std::move(numbers), *column.cell, place, bad_row);
}

}  // namespace

CsvDialect dialect_of(const plan::CsvFormat& format) {
  return {.delimiter = format.delimiter.front(),
          .quote = character_of(format.quote),
          .header = format.header,
          .comment = format.comment,
          .skip = format.skip,
          .trim = format.trim,
          .latin1 = format.encoding == plan::CsvFormat::Encoding::kLatin1,
          .decimal = format.decimal.front(),
          .thousands = character_of(format.thousands)};
}

bool same_csv(const plan::Column& a, const plan::Column& b) {
  const auto dialect = [](const plan::Column& column) {
    const plan::CsvFormat& csv = *column.csv;
    return std::tie(csv.delimiter, csv.quote, csv.header, csv.comment, csv.skip, csv.trim,
                    csv.encoding, csv.decimal, csv.thousands);
  };
  return a.csv && b.csv && a.files == b.files && dialect(a) == dialect(b);
}

std::vector<std::shared_ptr<SourceRows>> open_csv_columns(
    std::span<const plan::Column* const> columns, const fs::path& root) {
  std::vector<CsvRequest> requests;
  for (const plan::Column* column : columns) requests.push_back(request_of(*column));
  CsvSource source(files_of(*columns.front(), root), dialect_of(*columns.front()->csv),
                   std::move(requests));
  const auto shared = std::make_shared<CsvFiles>(std::move(source));
  std::vector<std::shared_ptr<SourceRows>> rows;
  for (size_t i = 0; i < columns.size(); ++i)
    rows.push_back(make_rows(*columns[i], root, shared, i));
  return rows;
}

}  // namespace flow::data
