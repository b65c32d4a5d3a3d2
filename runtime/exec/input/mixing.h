// Rows of a batch that are mixed with their neighbors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/augment/mix.h"
#include "runtime/data/dataset/column.h"
#include "runtime/plan/model/dataset.h"

namespace flow::exec {

/// The rows of one input that `mix` combines.
class MixedRows {
 public:
  /// `boxed` is true for the first column of `mix`. `image` is the size of the images of that
  /// column, or nothing, which mixup allows.
  MixedRows(const plan::Mix& mix, data::Column& column, std::string dataset, uint64_t seed,
            bool boxed, std::optional<data::ImageSize> image);

  /// Writes the rows of a part of a batch. `rows` are the rows of the part and the row after it,
  /// which for the last part is the first row of the batch.
  void fill(const data::BatchRows& rows, int64_t batch, DType dtype, std::span<std::byte> out);

 private:
  const data::MixOptions options_;
  data::Column& column_;
  const std::string dataset_;
  const uint64_t seed_;
  const bool boxed_;
  const std::optional<data::ImageSize> image_;
  std::vector<double> values_;
  io::RowConverter rounder_;
};

}  // namespace flow::exec
