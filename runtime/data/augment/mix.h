// Mixup and cutmix: each row of a batch is combined with the next one, and the last row with the
// first.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/array.h"
#include "runtime/data/image/resize.h"
#include "runtime/data/order/draws.h"

namespace flow::data {

/// The parameters of the Beta(a, a) distributions from which shares are drawn. At least one is
/// given; each is within kMixBounds.
struct MixOptions {
  std::optional<double> mixup, cutmix;
};
inline constexpr std::array<double, 2> kMixBounds = {0.05, 4};

/// How the rows of one batch are combined.
struct Mix {
  enum class Kind : uint8_t { kMixup, kCutmix };
  Kind kind = Kind::kMixup;
  double share = 1;  // share of the row itself; the next row has the rest
  Box box;           // of cutmix: the pixels that come from the next row
};

/// Draws how batch `batch` of an epoch is combined. `image` is the size of the rows of the first
/// column, which cutmix requires. Mixup: Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: Beyond Empirical
/// Risk Minimization", ICLR 2018. Cutmix: Yun et al., "CutMix", ICCV 2019. The Beta distribution is
/// drawn with the method of Jöhnk (1964).
Mix draw_mix(const MixOptions& options, const EpochDraws& draws, int64_t batch,
             std::optional<ImageSize> image);

/// Combines rows in place, each with the next one; the last row is only read. A whole batch is
/// therefore followed by a copy of its first row, and a part of a batch by the row after it.
/// `boxed` is true for the first column, in which cutmix replaces a box of each channel; all other
/// rows are sums that are weighted with the shares. REQUIRES: `rows` has whole rows of shape `row`,
/// and if cutmix replaces a box, that shape is [channels, height, width] of draw_mix's image.
void apply_mix(const Mix& mix, bool boxed, const Shape& row, std::span<double> rows);

}  // namespace flow::data
