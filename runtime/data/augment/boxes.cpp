// Draws boxes from the words of an op. float64 arithmetic is done in the written order.
#include "runtime/data/augment/boxes.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/order/draws.h"

namespace flow::data {
namespace {

using plan::augments::Interval;

constexpr uint64_t kTries = 10;

/// The sides of a random box before they are rounded, and the words that are left for its place.
struct Candidate {
  double product;   // sqrt(area * ratio)
  double quotient;  // sqrt(area / ratio)
  uint32_t top, left;
};

Candidate draw_candidate(const PhiloxBlock& words, ImageSize image, const Interval& area,
                         const Interval& aspect) {
  const auto pixels = static_cast<double>(image.height * image.width);
  const double target = pixels * (area[0] + (area[1] - area[0]) * unit(words[0]));
  const double low = std::log(aspect[0]), high = std::log(aspect[1]);
  const double ratio = std::exp(low + (high - low) * unit(words[1]));
  return {half_up(std::sqrt(target * ratio)), half_up(std::sqrt(target / ratio)), words[2],
          words[3]};
}

/// REQUIRES: the sides are not larger than those of the image.
Box place(const Candidate& candidate, ImageSize image, double height, double width) {
  const auto rows = static_cast<int64_t>(height), columns = static_cast<int64_t>(width);
  return {below(candidate.top, image.height - rows + 1),
          below(candidate.left, image.width - columns + 1), rows, columns};
}

/// A side of 0 would leave nothing to resize.
int64_t rounded_side(double side) { return std::max<int64_t>(1, std::llround(half_up(side))); }

Box largest_center(ImageSize image, const Interval& aspect) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  Box box{0, 0, image.height, image.width};
  if (width / height < aspect[0])
    box.height = rounded_side(width / aspect[0]);
  else if (width / height > aspect[1])
    box.width = rounded_side(height * aspect[1]);
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

}  // namespace

Box random_box(const OpDraw& draw, ImageSize image, int64_t pad, ImageSize size) {
  const PhiloxBlock words = draw.block(0);
  return {below(words[0], image.height + 2 * pad - size.height + 1) - pad,
          below(words[1], image.width + 2 * pad - size.width + 1) - pad, size.height, size.width};
}

Box random_resized_box(const OpDraw& draw, ImageSize image, const Interval& area,
                       const Interval& aspect) {
  const auto rows = static_cast<double>(image.height), columns = static_cast<double>(image.width);
  for (uint64_t i = 0; i < kTries; ++i) {
    const Candidate candidate = draw_candidate(draw.block(i), image, area, aspect);
    const double height = candidate.quotient, width = candidate.product;
    if (0 < width && width <= columns && 0 < height && height <= rows)
      return place(candidate, image, height, width);
  }
  return largest_center(image, aspect);
}

std::optional<Box> erased_box(const OpDraw& draw, ImageSize image,
                              const plan::augments::Erase& erase) {
  if (!happens(draw.block(0)[0], erase.p)) return std::nullopt;
  for (uint64_t i = 1; i <= kTries; ++i) {
    const Candidate candidate = draw_candidate(draw.block(i), image, erase.area, erase.aspect);
    const double height = candidate.product, width = candidate.quotient;
    if (height < static_cast<double>(image.height) && width < static_cast<double>(image.width))
      return place(candidate, image, height, width);
  }
  return std::nullopt;
}

Box cutout_box(const OpDraw& draw, ImageSize image, int64_t side) {
  const PhiloxBlock words = draw.block(0);
  const int64_t top = below(words[0], image.height) - side / 2;
  const int64_t left = below(words[1], image.width) - side / 2;
  const Box box{std::max<int64_t>(0, top), std::max<int64_t>(0, left), 0, 0};
  return {box.top, box.left, std::min(image.height, top + side) - box.top,
          std::min(image.width, left + side) - box.left};
}

Box center_box(ImageSize image, ImageSize size) {
  return {half_even(image.height - size.height), half_even(image.width - size.width), size.height,
          size.width};
}

}  // namespace flow::data
