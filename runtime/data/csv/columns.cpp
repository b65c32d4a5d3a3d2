// Stores the cells of CSV columns.
#include "runtime/data/csv/columns.h"

#include <limits>
#include <utility>

namespace flow::data {

int32_t CategoryIds::id_of(std::string_view text) {
  const auto found = ids_.lower_bound(text);
  if (found != ids_.end() && found->first == text) return found->second;
  if (ids_.size() == static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw RunError("a column has more than 2147483647 categories", "set its `type`");
  const auto id = static_cast<int32_t>(ids_.size());
  ids_.emplace_hint(found, text, id);
  return id;
}

std::vector<std::string> CategoryIds::take() {
  std::vector<std::string> texts(ids_.size());
  while (!ids_.empty()) {
    auto node = ids_.extract(ids_.begin());
    texts[static_cast<size_t>(node.mapped())] = std::move(node.key());
  }
  return texts;
}

ColumnBuilder::ColumnBuilder(CsvType type, int64_t width) : type_(type) { column_.width = width; }

void ColumnBuilder::reserve(size_t rows) {
  const size_t cells = rows * static_cast<size_t>(column_.width);
  if (type_ == CsvType::kNumber) column_.numbers.reserve(cells);
  if (type_ == CsvType::kInteger || type_ == CsvType::kBool) column_.integers.reserve(cells);
}

void ColumnBuilder::resize(size_t rows) {
  cells_ = rows * static_cast<size_t>(column_.width);
  switch (type_) {
    case CsvType::kNumber:
      column_.numbers.resize(cells_);
      break;
    case CsvType::kInteger:
    case CsvType::kBool:
      column_.integers.resize(cells_);
      break;
    case CsvType::kCategory:
      column_.ids.resize(cells_);
      break;
    case CsvType::kText:
    case CsvType::kPath:
      column_.texts.resize(cells_);
      break;
  }
  if (!column_.missing.empty()) column_.missing.resize(cells_);
}

void ColumnBuilder::store(size_t row, size_t position, const CsvCell& cell) {
  const size_t i = row * static_cast<size_t>(column_.width) + position;
  switch (type_) {
    case CsvType::kNumber:
      column_.numbers[i] = cell.number;
      break;
    case CsvType::kInteger:
    case CsvType::kBool:
      column_.integers[i] = cell.integer;
      break;
    case CsvType::kCategory:
      column_.ids[i] = ids_.id_of(cell.text);
      break;
    case CsvType::kText:
    case CsvType::kPath:
      column_.texts[i] = {column_.bytes.size(), cell.text.size()};
      column_.bytes += cell.text;
      break;
  }
}

void ColumnBuilder::store_missing(size_t row, size_t position) {
  if (column_.missing.empty()) column_.missing.resize(cells_);
  column_.missing[row * static_cast<size_t>(column_.width) + position] = 1;
}

CsvColumn ColumnBuilder::take(size_t rows) {
  resize(rows);
  column_.categories = ids_.take();
  return std::move(column_);
}

}  // namespace flow::data
