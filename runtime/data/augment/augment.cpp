// Crops, flips, changes of color and erasures of one image.
#include "runtime/data/augment/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/augment/boxes.h"
#include "runtime/data/image/resize.h"

namespace flow::data {
namespace {

using namespace plan::augments;  // NOLINT: the records of the ops

constexpr int64_t kWords = 4, kResizedCropWords = 40, kEraseWords = 44;
constexpr int64_t kMaxSamples = int64_t{1} << 40;  // their bytes do not overflow

ImageSize size_of(const Extents& extents) { return {extents[0], extents[1]}; }

template <typename Op>
OpDraw draw_of(const std::string& name, const AugmentDraws& draws) {
  constexpr int64_t words = std::is_same_v<Op, RandomResizedCrop> ? kResizedCropWords
                            : std::is_same_v<Op, Erase>           ? kEraseWords
                                                                  : kWords;
  return {draws.epoch.key("/augment/" + name), draws.epoch.epoch, draws.attempt, draws.row, words};
}

void check_fit(const Crop& op, const Image& image, int64_t pad) {
  if (image.channels > kMaxSamples / (op.size[0] * op.size[1]))
    throw RunError(fmt::format("crop of [{}, {}] from {} channels has too many samples", op.size[0],
                               op.size[1], image.channels),
                   "use a smaller `crop`");
  if (op.size[0] <= image.height + 2 * pad && op.size[1] <= image.width + 2 * pad) return;
  throw RunError(fmt::format("image of [{}, {}] is too small for a crop of [{}, {}]", image.height,
                             image.width, op.size[0], op.size[1]),
                 "use a smaller `crop`, or make images larger with `size`");
}

void check_photometric(const Image& image, bool color, std::string_view type) {
  if (image.bits == 8 && (image.channels == 3 || (!color && image.channels == 1))) return;
  throw RunError(fmt::format("`{}` on an image of {} channels with {} bits; expected {} with 8",
                             type, image.channels, image.bits, color ? "3" : "1 or 3"),
                 "remove the op, or change `channels` or `bits`");
}

void check_resizable(const Image& image) {
  if (image.bits <= 16) return;
  throw RunError("`random_resized_crop` on rows that are not uint8 or uint16",
                 "use `crop`, or store images as uint8");
}

/// Copies a box that may exceed the image, with zeros outside of it.
void crop_padded(const Image& image, const Box& box, Image& out) {
  const int64_t sample = image.bits / 8;
  out.channels = image.channels;
  out.height = box.height;
  out.width = box.width;
  out.bits = image.bits;
  out.data.assign(static_cast<size_t>(image.channels * box.height * box.width * sample),
                  std::byte{0});
  const int64_t first = std::max<int64_t>(0, box.left);
  const int64_t columns = std::min(image.width, box.left + box.width) - first;
  if (columns <= 0) return;
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t y = std::max<int64_t>(0, box.top);
         y < std::min(image.height, box.top + box.height); ++y) {
      const int64_t to = ((c * box.height + y - box.top) * box.width + first - box.left) * sample;
      const int64_t from = ((c * image.height + y) * image.width + first) * sample;
      std::memcpy(out.data.data() + to, image.data.data() + from,
                  static_cast<size_t>(columns * sample));
    }
}

template <typename Sample>
void flip(Image& image, plan::FlipAxis axis) {
  const std::span<Sample> samples = image.samples<Sample>();
  const auto width = static_cast<size_t>(image.width), height = static_cast<size_t>(image.height);
  if (width == 0) return;
  if (axis == plan::FlipAxis::kHorizontal)
    for (size_t at = 0; at < samples.size(); at += width)
      std::ranges::reverse(samples.subspan(at, width));
  else
    for (size_t at = 0; at < samples.size(); at += width * height)
      for (size_t y = 0; y < height / 2; ++y)
        std::ranges::swap_ranges(samples.subspan(at + y * width, width),
                                 samples.subspan(at + (height - 1 - y) * width, width));
}

double factor(const OpDraw& draw, double amount) {
  const double low = std::max(0.0, 1 - amount), high = 1 + amount;
  return low + (high - low) * unit(draw.block(0)[0]);
}

/// Rounds half up and clips to 0..255. The conversion rounds down, because no value is negative.
uint8_t quantize(double x) { return static_cast<uint8_t>(std::clamp(x + 0.5, 0.0, 255.0)); }

void look_up(Image& image, const std::array<uint8_t, 256>& table) {
  for (uint8_t& sample : image.samples<uint8_t>()) sample = table[sample];
}

/// Returns the gray value of a pixel with the weights of Pillow's conversion to L.
uint32_t gray(uint32_t red, uint32_t green, uint32_t blue) {
  return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16;
}

double mean_gray(const Image& image) {
  uint64_t sum = 0;
  const auto first = image.plane<uint8_t>(0);
  if (image.channels == 1) {
    for (const uint8_t sample : first) sum += sample;
  } else {
    const auto second = image.plane<uint8_t>(1), third = image.plane<uint8_t>(2);
    for (size_t i = 0; i < first.size(); ++i) sum += gray(first[i], second[i], third[i]);
  }
  return static_cast<double>(sum) / static_cast<double>(image.height * image.width);
}

/// Applies each op to an image.
class Augmentation {
 public:
  Augmentation(const AugmentDraws& draws, Image& image, Image& scratch)
      : training_(draws.training), image_(image), scratch_(scratch) {}

  void apply(const Crop& op, const OpDraw& draw) {
    const int64_t pad = training_ ? op.pad : 0;
    check_fit(op, image_, pad);
    const ImageSize size = size_of(op.size);
    crop_padded(
        image_,
        training_ ? random_box(draw, image_.size(), pad, size) : center_box(image_.size(), size),
        scratch_);
    std::swap(image_, scratch_);
  }

  void apply(const Flip& op, const OpDraw& draw) {
    if (!training_ || !happens(draw.block(0)[0], op.p)) return;
    switch (image_.bits) {
      case 8:
        return flip<uint8_t>(image_, op.axis);
      case 16:
        return flip<uint16_t>(image_, op.axis);
      case 32:
        return flip<uint32_t>(image_, op.axis);
      default:
        return flip<uint64_t>(image_, op.axis);
    }
  }

  void apply(const Brightness& op, const OpDraw& draw) {
    if (!training_) return;
    check_photometric(image_, false, "brightness");
    const double f = factor(draw, op.amount);
    std::array<uint8_t, 256> table;
    for (size_t v = 0; v < 256; ++v) table[v] = quantize(f * static_cast<double>(v));
    look_up(image_, table);
  }

  void apply(const Contrast& op, const OpDraw& draw) {
    if (!training_) return;
    check_photometric(image_, false, "contrast");
    const double f = factor(draw, op.amount), mean = mean_gray(image_);
    std::array<uint8_t, 256> table;
    for (size_t v = 0; v < 256; ++v)
      table[v] = quantize(mean + f * (static_cast<double>(v) - mean));
    look_up(image_, table);
  }

  void apply(const Saturation& op, const OpDraw& draw) {
    if (!training_) return;
    check_photometric(image_, true, "saturation");
    const double f = factor(draw, op.amount);
    const std::array planes{image_.plane<uint8_t>(0), image_.plane<uint8_t>(1),
                            image_.plane<uint8_t>(2)};
    for (size_t i = 0; i < planes[0].size(); ++i) {
      const double g = gray(planes[0][i], planes[1][i], planes[2][i]);
      for (const auto& plane : planes)
        plane[i] = quantize(g + f * (static_cast<double>(plane[i]) - g));
    }
  }

  void apply(const RandomResizedCrop& op, const OpDraw& draw) {
    check_resizable(image_);
    const ImageSize size = size_of(op.size);
    const auto filter = op.filter;
    if (training_)
      resize_part(image_, random_resized_box(draw, image_.size(), op.area, op.aspect), size,
                  {0, 0, size.height, size.width}, filter, scratch_);
    else
      resize_center(size, filter);
    std::swap(image_, scratch_);
  }

  void apply(const Erase&, const OpDraw&) {}
  void apply(const Cutout&, const OpDraw&) {}

 private:
  /// Resizes the shorter side to 8/7 of the longer side of the result, and keeps the center.
  void resize_center(ImageSize size, Filter filter) {
    const int64_t target = std::max(size.height, size.width) * 8 / 7;
    const int64_t shorter = std::min(image_.height, image_.width);
    const ImageSize resized{target * image_.height / shorter, target * image_.width / shorter};
    resize_part(image_, {0, 0, image_.height, image_.width}, resized, center_box(resized, size),
                filter, scratch_);
  }

  bool training_;
  Image& image_;
  Image& scratch_;
};

struct Erasure {
  Box box;
  double value;
};

void fill_box(std::span<double> planes, ImageSize size, const Erasure& erasure) {
  const Box& box = erasure.box;
  const auto row = static_cast<size_t>(size.width);
  const auto plane = static_cast<size_t>(size.height) * row;
  if (plane == 0 || box.width <= 0) return;
  for (size_t at = 0; at < planes.size(); at += plane)
    for (int64_t y = box.top; y < box.top + box.height; ++y)
      std::ranges::fill(
          planes.subspan(at + static_cast<size_t>(y) * row + static_cast<size_t>(box.left),
                         static_cast<size_t>(box.width)),
          erasure.value);
}

std::optional<Erasure> erasure_of(const Erase& op, const OpDraw& draw, ImageSize size) {
  const std::optional<Box> box = erased_box(draw, size, op);
  return box ? std::optional(Erasure{*box, op.value}) : std::nullopt;
}
std::optional<Erasure> erasure_of(const Cutout& op, const OpDraw& draw, ImageSize size) {
  return Erasure{cutout_box(draw, size, op.side), op.value};
}
template <typename Op>
std::optional<Erasure> erasure_of(const Op&, const OpDraw&, ImageSize) {
  return std::nullopt;
}

/// Calls take(record, draw) for each op.
template <typename Take>
void for_each_op(const std::vector<plan::Augment>& ops, const AugmentDraws& draws,
                 const Take& take) {
  const std::vector<std::string> names = plan::names_of(ops);
  for (size_t i = 0; i < ops.size(); ++i)
    std::visit([&]<typename Op>(const Op& op) { take(op, draw_of<Op>(names[i], draws)); }, ops[i]);
}

}  // namespace

void apply_augment(const std::vector<plan::Augment>& ops, const AugmentDraws& draws, Image& image,
                   Image& scratch) {
  if (image.data.empty())
    throw RunError("image without pixels", "remove the row, or skip it with on_bad_row: skip");
  Augmentation augmentation(draws, image, scratch);
  for_each_op(ops, draws,
              [&](const auto& op, const OpDraw& draw) { augmentation.apply(op, draw); });
}

void apply_erasures(const std::vector<plan::Augment>& ops, const AugmentDraws& draws,
                    ImageSize size, std::span<double> planes) {
  if (!draws.training || planes.empty()) return;
  for_each_op(ops, draws, [&](const auto& op, const OpDraw& draw) {
    if (const std::optional<Erasure> erasure = erasure_of(op, draw, size))
      fill_box(planes, size, *erasure);
  });
}

}  // namespace flow::data
