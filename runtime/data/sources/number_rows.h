// Cells that contain numbers, integers or bools, some of which may be missing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/variant_of_vectors.h"
#include "runtime/data/sources/cell_place.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// The cells of a column: `width` in each row, in row order.
struct NumberCells {
  std::variant<std::vector<double>, std::vector<int64_t>> values;
  int64_t width = 1;
  std::vector<uint8_t> missing = {};   // 1 for a missing value; empty if there is none
  std::vector<int64_t> bad_rows = {};  // ascending
  std::vector<int64_t> file_starts = {0};
};

/// Rows of numbers, or the one-hot rows of integers.
class NumberRows : public SourceRows {
 public:
  /// `bad_row` returns the error of a row of cells.bad_rows.
  NumberRows(NumberCells cells, const plan::CellRules& rules, CellPlace place,
             std::function<RunError(int64_t)> bad_row);

  int64_t rows() const override { return rows_; }
  StoredElement element() const override;
  int64_t row_elements() const override { return one_hot_ > 0 ? one_hot_ : cells_.width; }
  std::string row_text(int64_t row) const override { return place_(row); }
  std::vector<int64_t> file_starts() const override { return cells_.file_starts; }
  std::vector<int64_t> bad_rows() const override;
  RunError bad_row(int64_t row) const override;
  std::span<const std::byte> in_place(int64_t row, int64_t count) const override;
  std::span<const std::byte> read(int64_t row, const RowDraws&, Scratch& scratch) const override;
  bool is_missing(int64_t row, int64_t element) const override;
  /// Learns the replacements of missing values: the mean or the median of the present values, one
  /// for each position in a row. Throws RunError if there is none.
  void learn(std::span<const int64_t> rows, LearnedColumn& learned) const override;
  std::vector<int64_t> class_ids(std::span<const int64_t> rows) const override;
  /// Replaces missing values. A replacement of integers is rounded to the nearest whole number, and
  /// one of bools is 1 if it is at least 0.5. Throws RunError if a one-hot row has no place for it.
  std::vector<int64_t> apply(const LearnedColumn& learned) override;

 private:
  double value(size_t cell) const;
  std::vector<double> present(std::span<const int64_t> rows, int64_t position) const;
  void replace(size_t cell, double value);
  bool learns_fill() const;
  bool has_place(int64_t row) const;

  NumberCells cells_;
  int64_t rows_, one_hot_;
  plan::CellType type_;
  plan::Replacement missing_;
  CellPlace place_;
  std::function<RunError(int64_t)> bad_row_;
};

}  // namespace flow::data
