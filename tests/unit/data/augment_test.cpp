// Augmentation against images that tests/golden/data/draws.py makes, and images that ops reject.
#include "runtime/data/augment/augment.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/base/error.h"
#include "tests/support/golden_arrays.h"

namespace flow::data {
namespace {

using namespace plan::augments;
using plan::FlipAxis, plan::ImageFilter;

struct Use {
  int64_t row;
  uint32_t epoch, attempt;
};
constexpr std::array kUses = {Use{0, 0, 0}, Use{1, 0, 0}, Use{7, 0, 2}, Use{123456, 3, 0},
                              Use{5'000'000'000, 41, 1}};

AugmentDraws draws_of(const Use& use, bool training) {
  return {{0xFEDCBA9876543210, "pets/validation", use.epoch}, use.row, use.attempt, training};
}

/// Golden 16-bit samples are read as int32.
Image image_of(const Array& array) {
  Image image;
  const int bits = array.dtype() == DType::kUInt8 ? 8 : 16;
  image.reshape(array.shape()[0], array.shape()[1], array.shape()[2], bits);
  if (bits == 8)
    std::ranges::copy(array.as<uint8_t>(), image.samples<uint8_t>().begin());
  else
    std::ranges::transform(array.as<int32_t>(), image.samples<uint16_t>().begin(),
                           [](int32_t v) { return static_cast<uint16_t>(v); });
  return image;
}

std::vector<double> values_of(const Image& image) {
  if (image.bits == 16) {
    const auto samples = image.samples<uint16_t>();
    return {samples.begin(), samples.end()};
  }
  const auto samples = image.samples<uint8_t>();
  return {samples.begin(), samples.end()};
}

std::vector<double> values_of(const Array& array) {
  std::vector<double> values;
  const auto append = [&](auto span) { values.assign(span.begin(), span.end()); };
  if (array.dtype() == DType::kUInt8) append(array.as<uint8_t>());
  if (array.dtype() == DType::kInt32) append(array.as<int32_t>());
  if (array.dtype() == DType::kFloat32) append(array.as<float>());
  return values;
}

struct AugmentCase {
  std::string name, source;
  bool training;
  std::vector<plan::Augment> ops;
};

RandomResizedCrop resized(Extents size, Interval area = {0.08, 1},
                          Interval aspect = {3.0 / 4, 4.0 / 3},
                          ImageFilter filter = ImageFilter::kBilinear) {
  return {size, area, aspect, filter};
}

std::vector<AugmentCase> augment_cases() {
  constexpr auto kHorizontal = FlipAxis::kHorizontal, kVertical = FlipAxis::kVertical;
  return {
      {"crop", "rgb", true, {Crop{{6, 6}}}},
      {"crop_pad", "rgb", true, {Crop{{9, 12}, 4}}},
      {"crop_far", "grey", true, {Crop{{3, 2}, 7}}},
      {"crop_deep", "deep", true, {Crop{{7, 10}, 1}}},
      {"crop_predict", "rgb", false, {Crop{{6, 5}, 4}}},
      {"crop_predict_odd", "grey", false, {Crop{{6, 5}}}},
      {"flip", "rgb", true, {Flip{kHorizontal}}},
      {"flip_vertical", "grey", true, {Flip{kVertical, 0.8}}},
      {"flip_deep", "deep", true, {Flip{kHorizontal, 1}}},
      {"flip_deep_vertical", "deep", true, {Flip{kVertical, 1}}},
      {"flip_never", "rgba", true, {Flip{kVertical, 0}}},
      {"flip_predict", "rgba", false, {Flip{kVertical, 1}}},
      {"brightness", "rgb", true, {Brightness{0.4}}},
      {"brightness_strong", "grey", true, {Brightness{2.5}}},
      {"contrast", "rgb", true, {Contrast{0.7}}},
      {"contrast_strong", "grey", true, {Contrast{3}}},
      {"saturation", "rgb", true, {Saturation{1.5}}},
      {"color_predict", "rgb", false, {Saturation{1.5}, Contrast{1}}},
      {"resized", "rgb", true, {resized({8, 8})}},
      {"resized_cubic",
       "rgb",
       true,
       {resized({5, 7}, {0.3, 0.6}, {0.5, 2}, ImageFilter::kBicubic)}},
      {"resized_nearest", "grey", true, {resized({6, 4}, {0.9, 1}, {1, 1}, ImageFilter::kNearest)}},
      {"resized_wide", "wide", true, {resized({6, 6}, {0.9, 1})}},
      {"resized_tall", "tall", true, {resized({4, 6}, {0.8, 1})}},
      {"resized_deep", "deep", true, {resized({5, 5})}},
      {"resized_predict", "rgb", false, {resized({6, 4})}},
      {"resized_predict_tall",
       "grey",
       false,
       {resized({7, 7}, {0.08, 1}, {0.75, 1}, ImageFilter::kBicubic)}},
      {"erase", "rgb", true, {Erase{}}},
      {"erase_often", "grey", true, {Erase{1, {0.1, 0.9}, {0.2, 5}, -1.5}}},
      {"erase_large", "wide", true, {Erase{1, {0.5, 1}}}},
      {"cutout", "rgb", true, {Cutout{4}}},
      {"cutout_odd", "grey", true, {Cutout{5, 0.25}}},
      {"cutout_predict", "rgb", false, {Cutout{5}}},
      {"chain",
       "rgb",
       true,
       {Crop{{10, 11}, 2}, Flip{kHorizontal}, Flip{kVertical}, Brightness{0.2}, Contrast{0.2},
        Saturation{0.2}, Flip{kHorizontal}, Cutout{3, 7},
        Erase{0.9, {0.02, 1.0 / 3}, {0.3, 3.3}, 9}, Cutout{2, 8}}},
  };
}

std::vector<double> augmented(const AugmentCase& one, Image image, const Use& use, Image& scratch) {
  const AugmentDraws draws = draws_of(use, one.training);
  apply_augment(one.ops, draws, image, scratch);
  std::vector<double> values = values_of(image);
  apply_erasures(one.ops, draws, image.size(), values);
  return values;
}

TEST_CASE("augmented images equal those of another implementation", "[data]") {
  const std::map<std::string, Array> golden = test::golden_arrays("data/draws");
  Image scratch;
  for (const AugmentCase& one : augment_cases()) {
    std::vector<double> found;
    for (const Use& use : kUses) {
      const std::vector<double> values =
          augmented(one, image_of(golden.at("source_" + one.source)), use, scratch);
      found.insert(found.end(), values.begin(), values.end());
    }
    INFO(one.name);
    CHECK(found == values_of(golden.at("augment_" + one.name)));
  }
}

TEST_CASE("an image and its mask get the same crops and flips", "[data]") {
  const std::vector<plan::Augment> ops{Crop{{5, 4}, 3}, Flip{FlipAxis::kHorizontal}};
  Image image, mask, scratch;
  image.reshape(3, 8, 9, 8);
  for (size_t i = 0; i < image.data.size(); ++i) image.data[i] = static_cast<std::byte>(i % 72 + 1);
  mask.reshape(1, 8, 9, 8);
  std::copy_n(image.data.begin(), mask.data.size(), mask.data.begin());
  apply_augment(ops, draws_of(kUses[3], true), image, scratch);
  apply_augment(ops, draws_of(kUses[3], true), mask, scratch);
  CHECK(std::ranges::equal(image.plane<uint8_t>(2), mask.plane<uint8_t>(0)));
}

/// Returns the image with the same values as samples of type T.
template <typename T>
Image widened(const Image& image) {
  const auto samples = image.samples<uint8_t>();
  Image wide{image.channels, image.height, image.width, 8 * sizeof(T), {}};
  wide.data.resize(samples.size() * sizeof(T));
  std::ranges::copy(samples, wide.samples<T>().begin());
  return wide;
}

template <typename T>
void check_floats() {
  const std::vector<plan::Augment> ops{Crop{{7, 11}, 3}, Flip{FlipAxis::kHorizontal, 1},
                                       Flip{FlipAxis::kVertical, 1}};
  Image image = image_of(test::golden_arrays("data/draws").at("source_rgb")), scratch;
  Image wide = widened<T>(image);
  apply_augment(ops, draws_of(kUses[1], true), image, scratch);
  apply_augment(ops, draws_of(kUses[1], true), wide, scratch);
  CHECK(wide.size() == image.size());
  CHECK(std::ranges::equal(wide.samples<T>(), image.samples<uint8_t>()));
}

TEST_CASE("floats are cropped and flipped like the samples of images", "[data]") {
  check_floats<float>();
  check_floats<double>();
}

std::string refusal(const plan::Augment& op, int64_t channels, int64_t height, int64_t width,
                    int bits = 8, bool training = true) {
  Image image, scratch;
  image = {channels, height, width, bits, {}};
  image.data.resize(static_cast<size_t>(channels * height * width * bits / 8));
  try {
    apply_augment({op}, draws_of(kUses[0], training), image, scratch);
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("images that an op does not support are rejected", "[data]") {
  CHECK(refusal(Crop{{9, 4}, 2}, 3, 4, 9) == "image of [4, 9] is too small for a crop of [9, 4]");
  CHECK(refusal(Crop{{8, 4}, 2}, 3, 4, 9) == "accepted");
  CHECK(refusal(Crop{{8, 4}, 2}, 3, 4, 9, 8, false) ==
        "image of [4, 9] is too small for a crop of [8, 4]");
  CHECK(refusal(Crop{{65535, 65535}, 65535}, 257, 1, 1, 64) ==
        "crop of [65535, 65535] from 257 channels has too many samples");
  CHECK(refusal(Contrast{1}, 2, 4, 4) ==
        "`contrast` on an image of 2 channels with 8 bits; expected 1 or 3 with 8");
  CHECK(refusal(Brightness{1}, 3, 4, 4, 16) ==
        "`brightness` on an image of 3 channels with 16 bits; expected 1 or 3 with 8");
  CHECK(refusal(Saturation{1}, 1, 4, 4) ==
        "`saturation` on an image of 1 channels with 8 bits; expected 3 with 8");
  CHECK(refusal(Saturation{1}, 1, 4, 4, 8, false) == "accepted");
  CHECK(refusal(resized({2, 2}), 3, 4, 4, 32) ==
        "`random_resized_crop` on rows that are not uint8 or uint16");
  CHECK(refusal(resized({2, 2}), 3, 0, 4) == "image without pixels");
}

TEST_CASE("extreme amounts and shapes stay within the image", "[data]") {
  CHECK(refusal(Brightness{1e308}, 3, 2, 2) == "accepted");
  CHECK(refusal(Contrast{1e308}, 3, 2, 2) == "accepted");
  CHECK(refusal(Saturation{1e308}, 3, 2, 2) == "accepted");
  CHECK(refusal(resized({2, 2}, {1e-300, 1}, {1e-300, 1e300}), 1, 3, 3) == "accepted");
  CHECK(refusal(resized({2, 2}, {1e-300, 1e-300}, {1e300, 1e300}), 1, 3, 3) == "accepted");
  CHECK(refusal(resized({2, 2}, {1e-300, 1e-300}, {1e-300, 1e-300}), 1, 3, 3) == "accepted");
  CHECK(refusal(resized({2, 2}), 1, 1, 1'000'000, 8, false) == "accepted");
  std::vector<double> planes(6);
  apply_erasures({Erase{1, {1e-300, 1e-300}, {1e300, 1e300}, 5}, Cutout{65535, 4}},
                 draws_of(kUses[0], true), {2, 3}, planes);
  CHECK(planes == std::vector<double>(6, 4.0));
}

}  // namespace
}  // namespace flow::data
