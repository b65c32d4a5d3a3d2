// Augments images.
#include "runtime/data/sources/augmented_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/data/augment/augment.h"

namespace flow::data {
namespace {

AugmentDraws draws_of(const RowDraws& draws) {
  return {{draws.seed, draws.dataset, draws.epoch}, draws.row, draws.attempt, draws.training};
}

}  // namespace

AugmentedRows::AugmentedRows(std::shared_ptr<SourceRows> source, std::vector<plan::Augment> ops,
                             Shape before)
    : source_(std::move(source)),
      ops_(std::move(ops)),
      before_(std::move(before)),
      erases_(std::ranges::any_of(ops_, plan::is_erasure)) {}

RunError AugmentedRows::bad_row(int64_t row) const {
  return std::ranges::binary_search(source_->bad_rows(), row) ? source_->bad_row(row)
                                                              : SourceRows::bad_row(row);
}

std::span<const std::byte> AugmentedRows::read(int64_t row, const RowDraws& draws,
                                               Scratch& scratch) const {
  const std::span<const std::byte> bytes = source_->read(row, draws, scratch);
  if (!draws.augments) return bytes;
  Image& image = scratch.image;
  if (bytes.data() != image.data.data()) {
    image.reshape(before_[0], before_[1], before_[2], static_cast<int>(8 * element().bytes()));
    std::ranges::copy(bytes, image.data.begin());
  }
  try {
    apply_augment(ops_, draws_of(draws), image, scratch.other);
  } catch (const RunError& error) {
    throw BadRowError(fmt::format("{}: {}", row_text(row), error.what()), error.hint());
  }
  return image.data;
}

void AugmentedRows::finish(const RowDraws& draws, const Shape& row,
                           std::span<double> values) const {
  apply_erasures(ops_, draws_of(draws), {row[1], row[2]}, values);
}

}  // namespace flow::data
