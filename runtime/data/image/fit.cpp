// Fits images, with the sizes and centers of torchvision's Resize and CenterCrop.
#include "runtime/data/image/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace flow::data {
namespace {

/// Returns the size to which an image is resized before it is cropped or padded.
ImageSize resized_size(ImageSize source, const Fit& fit) {
  const auto [h, w] = source;
  const auto [height, width] = fit.size;
  const bool is_wide = w * height >= h * width;  // in comparison with fit.size
  switch (fit.mode) {
    case FitMode::kShort:
      return h <= w ? ImageSize{height, height * w / h} : ImageSize{height * h / w, height};
    case FitMode::kCrop:
      return is_wide ? ImageSize{height, w * height / h} : ImageSize{h * width / w, width};
    case FitMode::kPad:
      return w * height <= h * width ? ImageSize{height, std::max<int64_t>(1, w * height / h)}
                                     : ImageSize{std::max<int64_t>(1, h * width / w), width};
    case FitMode::kStretch:
      break;
  }
  return fit.size;
}

/// Returns half of the difference, with ties rounded to even: the first pixel of a centered crop.
int64_t half_even(int64_t difference) {
  const int64_t half = difference / 2;
  return half + (difference % 2 != 0 && half % 2 != 0);
}

/// Returns the part of a resized image that is kept.
Box kept_part(ImageSize resized, const Fit& fit) {
  if (fit.mode != FitMode::kCrop) return {0, 0, resized.height, resized.width};
  return {half_even(resized.height - fit.size.height), half_even(resized.width - fit.size.width),
          fit.size.height, fit.size.width};
}

/// Throws RunError if the image, which may be a thin line, needs too much memory.
void check_memory(ImageSize source, ImageSize resized, const Box& part, const Fit& fit) {
  const bool fits = std::max(resized.height, resized.width) <= INT32_MAX &&
                    part.width <= fit.max_pixels / std::max(source.height, part.height);
  if (fits) return;
  throw RunError(
      fmt::format("an image of {} x {} pixels resized to {} x {} needs over {} pixels",
                  source.height, source.width, resized.height, resized.width, fit.max_pixels),
      "crop the image, or set max_pixels");
}

template <typename Sample>
void paste_samples(const Image& image, int64_t top, int64_t left, Sample fill, Image& out) {
  std::ranges::fill(out.samples<Sample>(), fill);
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t y = 0; y < image.height; ++y)
      std::copy_n(image.plane<Sample>(c).data() + y * image.width, image.width,
                  out.plane<Sample>(c).data() + (top + y) * out.width + left);
}

/// Surrounds the image with `fill`.
void pad(const Image& image, const Fit& fit, Image& out) {
  const auto [height, width] = fit.size;
  out.reshape(image.channels, height, width, image.bits);
  const int64_t top = (height - image.height) / 2, left = (width - image.width) / 2;
  if (image.bits == 8)
    paste_samples<uint8_t>(image, top, left, static_cast<uint8_t>(fit.fill), out);
  else
    paste_samples<uint16_t>(image, top, left, fit.fill, out);
}

}  // namespace

ImageSize fitted_size(ImageSize source, const Fit& fit) {
  const ImageSize resized = resized_size(source, fit);
  check_memory(source, resized, kept_part(resized, fit), fit);
  return fit.mode == FitMode::kShort ? resized : fit.size;
}

void fit_image(const Image& image, const Fit& fit, Image& out) {
  const ImageSize resized = resized_size(image.size(), fit);
  const Box all{0, 0, image.height, image.width}, part = kept_part(resized, fit);
  check_memory(image.size(), resized, part, fit);
  if (fit.mode != FitMode::kPad || resized == fit.size)
    return resize_part(image, all, resized, part, fit.filter, out);
  Image inner;
  resize_part(image, all, resized, part, fit.filter, inner);
  pad(inner, fit, out);
}

}  // namespace flow::data
