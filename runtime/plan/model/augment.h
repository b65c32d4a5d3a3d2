// The ops that augment images: random crops, flips and changes of color. There is a record for each
// op. The name of a record is the key of the op in a job file. A member of that name is the value
// of the key, and the other members are keys next to it: {crop: 56, pad: 4}. A record without such
// a member has all its keys below its name: {erase: {p: 0.25}}.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/plan/model/record.h"

namespace flow::plan {

/// How images are resized.
enum class ImageFilter : uint8_t { kBilinear, kBicubic, kNearest };
template <>
struct EnumNames<ImageFilter> {
  static constexpr std::array<std::string_view, 3> words = {"bilinear", "bicubic", "nearest"};
};

/// The axis along which an image is mirrored.
enum class FlipAxis : uint8_t { kHorizontal, kVertical };
template <>
struct EnumNames<FlipAxis> {
  static constexpr std::array<std::string_view, 2> words = {"horizontal", "vertical"};
};

namespace augments {

/// A height and a width in pixels, or a lower and an upper bound.
using Extents = std::array<int64_t, 2>;
using Interval = std::array<double, 2>;

/// JPEG has no larger sides.
inline constexpr double kMaxSide = 65535;
inline constexpr Bounds kSide{.min = 1, .max = kMaxSide}, kPadding{.min = 0, .max = kMaxSide},
    kProbability{.min = 0, .max = 1}, kShare{.max = 1, .above = 0};

struct Crop {
  Extents size{};
  int64_t pad = 0;

  static constexpr auto record() {
    return Record{
        "crop",
        "Cuts a box out of the image: at a random place in train jobs, at the center in predict "
        "jobs.",
        "",
        std::tuple{
            Field{"crop", &Crop::size, "", "height and width of the box, or both as one number",
                  kSide},
            Field{"pad", &Crop::pad, "0", "zeros around the image, in train jobs only", kPadding}}};
  }
};

struct Flip {
  FlipAxis axis = FlipAxis::kHorizontal;
  double p = 0.5;

  static constexpr auto record() {
    return Record{"flip", "Mirrors the image at random.", "",
                  std::tuple{Field{"flip", &Flip::axis, "", "horizontal or vertical"},
                             Field{"p", &Flip::p, "0.5", "probability", kProbability}}};
  }
};

struct Brightness {
  double amount = 0;

  static constexpr auto record() {
    return Record{"brightness", "Multiplies the image by a random factor.",
                  "v = f v, f uniform in [max(0, 1 - b), 1 + b]",
                  std::tuple{Field{"brightness", &Brightness::amount, "",
                                   "largest deviation b of the factor from 1", kNotNegative}}};
  }
};

struct Contrast {
  double amount = 0;

  static constexpr auto record() {
    return Record{"contrast",
                  "Multiplies the differences from the mean gray of the image by a random factor.",
                  "v = m + f (v - m), f uniform in [max(0, 1 - b), 1 + b]",
                  std::tuple{Field{"contrast", &Contrast::amount, "",
                                   "largest deviation b of the factor from 1", kNotNegative}}};
  }
};

struct Saturation {
  double amount = 0;

  static constexpr auto record() {
    return Record{"saturation",
                  "Multiplies the differences from the gray of each pixel by a random factor.",
                  "v = g + f (v - g), f uniform in [max(0, 1 - b), 1 + b]",
                  std::tuple{Field{"saturation", &Saturation::amount, "",
                                   "largest deviation b of the factor from 1", kNotNegative}}};
  }
};

struct RandomResizedCrop {
  Extents size{};
  Interval area{0.08, 1}, aspect{3.0 / 4, 4.0 / 3};
  ImageFilter filter = ImageFilter::kBilinear;

  static constexpr auto record() {
    using T = RandomResizedCrop;
    return Record{
        "random_resized_crop",
        "Cuts out a box of random area and aspect ratio and resizes it. Predict jobs resize the "
        "image and cut out its center.",
        "",
        std::tuple{Field{"random_resized_crop", &T::size, "",
                         "height and width of the result, or both as one number", kSide},
                   Field{"area", &T::area, "[0.08, 1]", "share of the area of the image", kShare},
                   Field{"aspect", &T::aspect, "[3/4, 4/3]", "width divided by height", kPositive},
                   Field{"filter", &T::filter, "bilinear", "bilinear, bicubic or nearest"}}};
  }
};

struct Erase {
  double p = 0.5;
  Interval area{0.02, 1.0 / 3}, aspect{0.3, 3.3};
  double value = 0;

  static constexpr auto record() {
    return Record{
        "erase", "Overwrites a box of random area and aspect ratio after normalization, at random.",
        "",
        std::tuple{
            Field{"p", &Erase::p, "0.5", "probability", kProbability},
            Field{"area", &Erase::area, "[0.02, 1/3]", "share of the area of the image", kShare},
            Field{"aspect", &Erase::aspect, "[0.3, 3.3]", "height divided by width", kPositive},
            Field{"value", &Erase::value, "0", "normalized value of the box", Bounds{}}}};
  }
};

struct Cutout {
  int64_t side = 0;
  double value = 0;

  static constexpr auto record() {
    return Record{
        "cutout", "Overwrites a square around a random pixel after normalization.", "",
        std::tuple{
            Field{"cutout", &Cutout::side, "", "side of the square in pixels", kSide},
            Field{"value", &Cutout::value, "0", "normalized value of the square", Bounds{}}}};
  }
};

}  // namespace augments

using Augment = std::variant<augments::Crop, augments::Flip, augments::Brightness,
                             augments::Contrast, augments::Saturation, augments::RandomResizedCrop,
                             augments::Erase, augments::Cutout>;

/// Returns the name of each op in a list: its key, and for its repetitions `flip/2`, `flip/3`.
std::vector<std::string> names_of(const std::vector<Augment>& ops);

/// Returns true for the ops that act after normalization: erase and cutout.
bool is_erasure(const Augment& op);

/// Returns the height and width that the ops give to every image, or nothing if images keep their
/// own.
std::optional<augments::Extents> size_after(const std::vector<Augment>& ops);

/// What is known about the rows of a column, [channels, height, width], before the job runs.
struct AugmentedRows {
  std::optional<int64_t> channels;
  std::optional<augments::Extents> size;
  bool uint8 = true;
  bool resizable = true;  // uint8 or uint16
};

struct AugmentFault {
  size_t op = 0;  // index in the list
  std::string message;
  std::string hint = {};
};

/// Returns the faults of a list of ops: intervals in the wrong order, ops that the rows do not
/// support, crops that do not fit, and ops after an erasure. The bounds of single numbers are those
/// of the records.
std::vector<AugmentFault> faults_of(const std::vector<Augment>& ops, const AugmentedRows& rows);

}  // namespace flow::plan
