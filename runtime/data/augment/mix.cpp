// Draws and applies mixup and cutmix. float64 arithmetic is done in the written order.
#include "runtime/data/augment/mix.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace flow::data {
namespace {

constexpr uint64_t kBlocksPerBatch = 2;  // a batch has 8 words
constexpr uint32_t kHalfOfWords = uint32_t{1} << 31;

/// Returns a uniform number in (0, 1].
double positive_unit(uint32_t word) { return (static_cast<double>(word >> 8) + 1) * 0x1p-24; }

/// Draws from Beta(a, a): words 1 and 2 of a block, with further attempts until they are accepted.
double draw_beta(double a, PhiloxKey key, uint32_t epoch, uint64_t block) {
  for (uint32_t attempt = 0;; ++attempt) {
    const PhiloxBlock words = philox_block(key, epoch, block, attempt);
    const double x = std::pow(positive_unit(words[1]), 1 / a);
    const double y = std::pow(positive_unit(words[2]), 1 / a);
    if (x + y <= 1) return x / (x + y);
  }
}

/// Returns the part of an axis of length `extent` within `half` of the center.
std::array<int64_t, 2> clipped(int64_t center, int64_t half, int64_t extent) {
  return {std::max<int64_t>(0, center - half), std::min(extent, center + half)};
}

int64_t half_side(double share, int64_t extent) {
  return static_cast<int64_t>(std::floor(0.5 * std::sqrt(1 - share) * static_cast<double>(extent)));
}

Mix cut(double share, ImageSize image, const PhiloxBlock& words) {
  const auto [top, bottom] =
      clipped(below(words[0], image.height), half_side(share, image.height), image.height);
  const auto [left, right] =
      clipped(below(words[1], image.width), half_side(share, image.width), image.width);
  const Box box{top, left, bottom - top, right - left};
  const auto pixels = static_cast<double>(image.height * image.width);
  return {Mix::Kind::kCutmix, 1 - static_cast<double>(box.height * box.width) / pixels, box};
}

void add_next(double share, size_t row, std::span<double> rows) {
  for (size_t i = 0; i + row < rows.size(); ++i)
    rows[i] = share * rows[i] + (1 - share) * rows[i + row];
}

void copy_box(const Box& box, const Shape& row, std::span<double> rows) {
  const int64_t height = row[1], width = row[2];
  const auto next = static_cast<size_t>(row.elements());
  const auto planes = static_cast<int64_t>((rows.size() - next)) / (height * width);
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t y = box.top; y < box.top + box.height; ++y) {
      const auto at = static_cast<size_t>((plane * height + y) * width + box.left);
      std::ranges::copy(rows.subspan(at + next, static_cast<size_t>(box.width)),
                        rows.subspan(at).begin());
    }
}

}  // namespace

Mix draw_mix(const MixOptions& options, const EpochDraws& draws, int64_t batch,
             std::optional<ImageSize> image) {
  FLOW_CHECK(options.mixup || options.cutmix);
  const PhiloxKey key = draws.key("/mix");
  const uint64_t block = kBlocksPerBatch * static_cast<uint64_t>(batch);
  const bool mixup =
      options.mixup && (!options.cutmix || philox_block(key, draws.epoch, block)[0] < kHalfOfWords);
  const double share = draw_beta(mixup ? *options.mixup : *options.cutmix, key, draws.epoch, block);
  if (mixup) return {Mix::Kind::kMixup, share, {}};
  FLOW_CHECK(image && image->height > 0 && image->width > 0);
  return cut(share, *image, philox_block(key, draws.epoch, block + 1));
}

void apply_mix(const Mix& mix, bool boxed, const Shape& row, std::span<double> rows) {
  if (rows.empty()) return;
  if (boxed && mix.kind == Mix::Kind::kCutmix)
    copy_box(mix.box, row, rows);
  else
    add_next(mix.share, static_cast<size_t>(row.elements()), rows);
}

}  // namespace flow::data
