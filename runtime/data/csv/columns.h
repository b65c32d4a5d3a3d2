// The columns of a table while they grow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/data/csv/cells.h"
#include "runtime/data/csv/csv.h"

namespace flow::data {

/// Numbers distinct texts in order of first occurrence. It is a tree, which stays fast for texts
/// that are chosen to collide in a hash table.
class CategoryIds {
 public:
  /// Throws RunError if there are more than 2^31 - 1 distinct texts.
  int32_t id_of(std::string_view text);
  /// Returns the texts by id and leaves none behind.
  std::vector<std::string> take();

 private:
  std::map<std::string, int32_t, std::less<>> ids_;
};

/// Fills the cells of one request.
class ColumnBuilder {
 public:
  ColumnBuilder(CsvType type, int64_t width);
  /// Takes memory for rows in advance.
  void reserve(size_t rows);
  /// Makes room for rows, whose new cells are 0 or empty.
  void resize(size_t rows);
  void store(size_t row, size_t position, const CsvCell& cell);
  /// REQUIRES: the type is kNumber.
  void store_number(size_t row, size_t position, double value) {
    column_.numbers[row * static_cast<size_t>(column_.width) + position] = value;
  }
  void store_missing(size_t row, size_t position);
  /// Returns the column with this number of rows.
  CsvColumn take(size_t rows);

 private:
  CsvType type_;
  size_t cells_ = 0;
  CsvColumn column_;
  CategoryIds ids_;
};

}  // namespace flow::data
