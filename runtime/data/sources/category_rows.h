// Cells whose values are categories.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/sources/cell_place.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Texts by their index in a list of distinct texts.
struct CategoryCells {
  std::vector<int32_t> ids;
  std::vector<std::string> texts;
  std::vector<uint8_t> missing = {};   // 1 for a missing value; empty if there is none
  std::vector<int64_t> bad_rows = {};  // ascending
  std::vector<int64_t> file_starts = {0};
};

/// Rows with the ids of categories, or one-hot rows. With C categories, the id of `extra` is C.
class CategoryRows : public SourceRows {
 public:
  /// `listed` are the categories in the order of their ids, or nothing if they are learned; then
  /// those in `always` are categories even if no row has them. Throws RequestError if a category is
  /// listed twice, or if a replacement is not listed.
  CategoryRows(CategoryCells cells, const plan::CellRules& rules,
               std::optional<std::vector<std::string>> listed, CellPlace place,
               std::function<RunError(int64_t)> bad_row, std::vector<std::string> always = {});

  int64_t rows() const override { return static_cast<int64_t>(cells_.ids.size()); }
  StoredElement element() const override;
  int64_t row_elements() const override { return rules_.one_hot > 0 ? rules_.one_hot : 1; }
  std::string row_text(int64_t row) const override { return place_(row); }
  std::vector<int64_t> file_starts() const override { return cells_.file_starts; }
  std::vector<int64_t> bad_rows() const override;
  RunError bad_row(int64_t row) const override;
  std::span<const std::byte> in_place(int64_t row, int64_t count) const override;
  std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                  Scratch& scratch) const override;
  void learn(std::span<const int64_t> rows, LearnedColumn& learned) const override;
  std::vector<int64_t> class_ids(std::span<const int64_t> rows) const override;
  std::vector<int64_t> apply(const LearnedColumn& learned) override;

  const CategoryCells* categories() const override { return &cells_; }

 private:
  static constexpr int32_t kBad = -1;

  bool is_missing_cell(size_t row) const { return !cells_.missing.empty() && cells_.missing[row]; }
  void use(const std::vector<std::string>& categories);
  int32_t replacement_id(const plan::Replacement& replacement,
                         const std::vector<std::string>& categories) const;
  std::vector<int64_t> rows_with_bad_ids() const;

  CategoryCells cells_;
  plan::CellRules rules_;
  std::vector<std::string> always_;
  bool is_listed_;
  CellPlace place_;
  std::function<RunError(int64_t)> bad_row_;
  std::vector<int32_t> ids_;  // the id of each row, or kBad
};

/// Returns the categories that a column lists or that are the lines of its file, or nothing if they
/// are learned. Throws RunError if the file cannot be read, is not UTF-8 or is empty.
std::optional<std::vector<std::string>> listed_categories(const plan::Column& column,
                                                          const fs::path& root);

}  // namespace flow::data
