// Rows of images that are augmented when they are read.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/augment.h"

namespace flow::data {

/// Applies augmentation ops to the rows of another source.
class AugmentedRows : public SourceRows {
 public:
  /// `before` is the shape of a row of the source, (channels, height, width), or [] if it differs
  /// from row to row.
  AugmentedRows(std::shared_ptr<SourceRows> source, std::vector<plan::Augment> ops, Shape before);

  int64_t rows() const override { return source_->rows(); }
  StoredElement element() const override { return source_->element(); }
  int64_t row_elements() const override { return 0; }
  std::string row_text(int64_t row) const override { return source_->row_text(row); }
  std::vector<int64_t> file_starts() const override { return source_->file_starts(); }
  std::vector<fs::path> row_files() const override { return source_->row_files(); }
  std::vector<int64_t> bad_rows() const override { return source_->bad_rows(); }
  RunError bad_row(int64_t row) const override;
  bool is_decoded() const override { return true; }
  void recovering(const std::function<void()>& read) const override { source_->recovering(read); }
  std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                  Scratch& scratch) const override;
  bool has_final_pass() const override { return erases_; }
  void finish(const RowDraws& draws, const Shape& row, std::span<double> values) const override;

 private:
  std::shared_ptr<SourceRows> source_;
  std::vector<plan::Augment> ops_;
  Shape before_;
  bool erases_;
};

}  // namespace flow::data
