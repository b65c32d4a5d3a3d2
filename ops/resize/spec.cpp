// The records of ops that resize images by interpolation, and the tables for resizing along one
// axis, as ONNX's Resize defines it.
#include "ops/resize/taps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/families.h"
#include "ops/core/windows.h"

namespace flow::ops {
namespace {

using Tap = std::pair<int64_t, double>;  // index, weight
using TapLists = std::vector<std::vector<Tap>>;

/// The parameters with which one axis is resized.
struct Resized {
  Resized(const Attributes& attributes, int64_t in_extent, int64_t out_extent)
      : mode(attributes.get<std::string>("mode")),
        coordinates(attributes.get<std::string>("coordinates")),
        rounding(attributes.get<std::string>("rounding")),
        scale(attributes.get<double>("scale")),
        cubic(attributes.get<double>("cubic_coefficient")),
        excludes(attributes.get<bool>("exclude_outside")),
        in(in_extent),
        out(out_extent) {}

  std::string mode, coordinates, rounding;
  double scale, cubic;  // if `scale` is 0, the quotient of the extents is used
  bool excludes;
  int64_t in, out;

  /// Maps a place of the result to a place of x. A quotient of integers is rounded only once.
  double unscaled(double place) const {
    return scale > 0 ? place / scale : place * static_cast<double>(in) / static_cast<double>(out);
  }

  /// Returns the position of element i of the result in x.
  double position(int64_t i) const {
    const auto place = static_cast<double>(i);
    if (coordinates == "half_pixel") return unscaled(place + 0.5) - 0.5;
    if (coordinates == "asymmetric") return unscaled(place);
    return out == 1 ? 0 : place * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  }

  double rounded(double position) const {
    if (rounding == "floor") return std::floor(position);
    if (rounding == "ceil") return std::ceil(position);
    if (rounding == "round_prefer_ceil") return std::floor(position + 0.5);
    return std::ceil(position - 0.5);
  }

  /// The weights of Keys, Cubic convolution interpolation for digital image processing, 1981, where
  /// `cubic` is the parameter a.
  double cubic_weight(double distance) const {
    const double a = cubic, d = std::abs(distance);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  /// Returns the taps at a position. Their places may be outside x.
  std::vector<Tap> taps_at(double position) const {
    if (mode == "nearest") return {{static_cast<int64_t>(rounded(position)), 1}};
    const auto floor = static_cast<int64_t>(std::floor(position));
    const double rest = position - std::floor(position);
    if (mode == "bilinear") return {{floor, 1 - rest}, {floor + 1, rest}};
    std::vector<Tap> taps;
    for (int64_t k = -1; k <= 2; ++k)
      taps.emplace_back(floor + k, cubic_weight(static_cast<double>(k) - rest));
    return taps;
  }

  void exclude_outside(std::vector<Tap>& taps) const {
    double sum = 0;
    for (auto& [place, weight] : taps) {
      if (place < 0 || place >= in) weight = 0;
      sum += weight;
    }
    for (auto& [place, weight] : taps) weight /= sum;
  }

  /// Returns the taps of one element in ascending order, with each place once. Outside x, the edge
  /// is repeated.
  std::vector<Tap> taps_of(int64_t i) const {
    std::vector<Tap> taps = taps_at(position(i));
    if (excludes) exclude_outside(taps);
    std::vector<Tap> inside;
    for (const auto& [place, weight] : taps) {
      const int64_t index = std::clamp<int64_t>(place, 0, in - 1);
      if (!inside.empty() && inside.back().first == index)
        inside.back().second += weight;
      else
        inside.emplace_back(index, weight);
    }
    std::erase_if(inside, [](const Tap& tap) { return tap.second == 0; });
    return inside;
  }
};

Taps table_of(const TapLists& lists) {
  Taps taps;
  taps.count = static_cast<int64_t>(lists.size());
  for (const std::vector<Tap>& list : lists)
    taps.width = std::max(taps.width, static_cast<int64_t>(list.size()));
  taps.indices.resize(static_cast<size_t>(taps.count * taps.width));
  taps.weights.resize(taps.indices.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    for (size_t k = 0; k < lists[i].size(); ++k) {
      taps.indices[k * lists.size() + i] = static_cast<int32_t>(lists[i][k].first);
      taps.weights[k * lists.size() + i] = lists[i][k].second;
    }
  }
  return taps;
}

constexpr int64_t kMostTaps = 4;    // the taps along an axis in cubic mode
constexpr double kLeastCubic = -1;  // weights inside an image sum to more than 0 in [-1, 0]

/// Returns the extent multiplied by `scale` and rounded down; reports an extent that is zero or too
/// large.
std::optional<int64_t> scaled(Call& call, int64_t extent, double scale) {
  const double scaled = std::floor(static_cast<double>(extent) * scale);
  if (scaled >= 1 && scaled <= static_cast<double>(kMostResized))
    return static_cast<int64_t>(scaled);
  call.bad_attribute("scale", Reason::kOutOfRange,
                     fmt::format("{} pixels scaled by {} are {}; expected 1 to {}", extent, scale,
                                 scaled, kMostResized));
  return {};
}

/// Returns the height and width of the result that `size` or `scale` requests.
std::optional<std::vector<int64_t>> wanted_size(Call& call, const Shape& x) {
  const std::vector<int64_t>& size = call.integers("size");
  const double scale = call.attribute<double>("scale");
  if (!size.empty() && scale != 0) {
    call.bad_attribute("scale", Reason::kBadAttribute,
                       "`resize` has both `size` and `scale`; expected one of them");
    return {};
  }
  if (!size.empty()) return sizes_of(call, "size");
  if (scale == 0) {
    call.bad_call(Reason::kMissingAttribute, "`resize` needs `size` or `scale`");
    return {};
  }
  const auto height = scaled(call, x[2], scale);
  const auto width = height ? scaled(call, x[3], scale) : std::nullopt;
  if (!width) return {};
  return std::vector{*height, *width};
}

void normalize_resize(Call& call, Attributes& attributes) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)")) return;
  if (const auto size = wanted_size(call, call.shape(0))) attributes.set("size", *size);
}

/// Returns true if the attributes fit the mode; reports an attribute that belongs to another mode.
bool suits_mode(Call& call) {
  const auto& mode = call.attribute<std::string>("mode");
  const auto only = [&](std::string_view name, std::string_view of, bool is_default) {
    if (mode == of || is_default) return;
    call.bad_attribute(name, Reason::kBadAttribute,
                       fmt::format("mode `{}` does not use `{}`; only `{}` does", mode, name, of));
  };
  only("rounding", "nearest", call.attribute<std::string>("rounding") == "round_prefer_floor");
  only("cubic_coefficient", "bicubic", call.attribute<double>("cubic_coefficient") == -0.75);
  only("exclude_outside", "bicubic", !call.attribute<bool>("exclude_outside"));
  return !call.failed();
}

/// Returns true if tables can be made for a resize from x to `size`, and if a given scale agrees
/// with `size`; otherwise reports an error.
bool fits(Call& call, const Shape& x, const std::vector<int64_t>& size) {
  if (!suits_mode(call)) return false;
  const double scale = call.attribute<double>("scale");
  if (const double a = call.attribute<double>("cubic_coefficient"); a < kLeastCubic || a > 0) {
    call.bad_attribute("cubic_coefficient", Reason::kOutOfRange,
                       fmt::format("`cubic_coefficient` is {}; expected {} to 0", a, kLeastCubic));
    return false;
  }
  for (size_t i = 0; i < 2; ++i) {
    const int64_t in = x[static_cast<int>(i) + 2], out = size[i];
    if (in > kMostResized || out > kMostResized) {
      call.bad_attribute(
          "size", Reason::kTensorTooLarge,
          fmt::format("{} pixels resized to {}; expected at most {}", in, out, kMostResized));
      return false;
    }
    if (scale != 0 && std::floor(static_cast<double>(in) * scale) != static_cast<double>(out)) {
      call.bad_attribute("scale", Reason::kBadAttribute,
                         fmt::format("{} pixels scaled by {} are not {}", in, scale, out));
      return false;
    }
  }
  return true;
}

Shape resized(const Shape& x, const std::vector<int64_t>& size) {
  return {x[0], x[1], size[0], size[1]};
}

void infer_resize(Call& call) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)")) return;
  const std::vector<int64_t>& size = call.integers("size");
  if (fits(call, call.shape(0), size))
    call.result(call.dtype(0), resized(call.shape(0), size),
                batch_before(call.operand(0).batch_axis, 2));
}

void infer_resize_grad(Call& call) {
  const auto x = four_extents(call, "input_shape");
  if (!x) return;
  const std::vector<int64_t>& size = call.integers("size");
  if (fits(call, *x, size) && call.have_shape(0, 1, resized(*x, size)))
    call.result(call.dtype(0), *x, batch_before(call.operand(0).batch_axis, 2));
}

std::vector<AttributeSpec> resize_attributes() {
  return {
      sizes_attribute("size", "[]", "height and width, or one number for both"),
      number_attribute("scale", "0",
                       "factor on height and width instead of `size`; the result is rounded down",
                       0),
      choice_attribute("mode", "nearest", "how to interpolate", {"nearest", "bilinear", "bicubic"}),
      choice_attribute(
          "coordinates", "half_pixel",
          "half_pixel aligns the edges of the images, align_corners the centers of the "
          "corner pixels, asymmetric the upper left edges",
          {"half_pixel", "align_corners", "asymmetric"}),
      choice_attribute(
          "rounding", "round_prefer_floor",
          "which pixel is nearest; the first two differ for a place between two pixels",
          {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
      number_attribute("cubic_coefficient", "-0.75",
                       "the coefficient a of bicubic interpolation; -0.5 in TensorFlow and Pillow",
                       kLeastCubic, 0),
      {"exclude_outside", AttributeType::kBool, "false",
       "give pixels outside the image no weight, where bicubic else repeats the edge"}};
}

std::vector<AttributeSpec> resize_gradient_attributes() {
  std::vector<AttributeSpec> attributes = resize_attributes();
  attributes.push_back(input_shape_attribute());
  return attributes;
}

}  // namespace

Taps resize_taps(const Attributes& attributes, int64_t in, int64_t out) {
  const Resized axis(attributes, in, out);
  TapLists lists;
  for (int64_t i = 0; i < out; ++i) lists.push_back(axis.taps_of(i));
  return table_of(lists);
}

Taps transposed(const Taps& taps, int64_t in) {
  TapLists lists(static_cast<size_t>(in));
  for (int64_t i = 0; i < taps.count; ++i) {
    for (int64_t k = 0; k < taps.width; ++k) {
      const auto at = static_cast<size_t>(k * taps.count + i);
      if (taps.weights[at] != 0)
        lists[static_cast<size_t>(taps.indices[at])].emplace_back(i, taps.weights[at]);
    }
  }
  return table_of(lists);
}

std::vector<OpSpec> resize() {
  return {
      {.name = "resize",
       .doc = "Resizes images by interpolation; the edge pixels continue outside the image.",
       .formula = "y[n, c, i, j] = sum of w[i, k] v[j, l] x[n, c, k, l]",
       .operands = {{"in", "(N, C, H, W)"}},
       .attributes = resize_attributes(),
       .normalize = normalize_resize,
       .infer = infer_resize,
       .linear = {0},
       .flops = {2 * kMostTaps},
       .examples = {"resize(f32[2,3,4,5]) scale=2", "resize(f32[2,3,4,5]) scale=2 mode=bilinear",
                    "resize(f32[1,2,5,7]) size=[8,3] mode=bilinear coordinates=align_corners",
                    "resize(f32[2,2,5,4]) scale=1.7 mode=bicubic",
                    "resize(f32[1,3,7,9]) size=4 mode=bicubic cubic_coefficient=-0.5 "
                    "exclude_outside=true",
                    "resize(f32[1,2,6,5]) size=[3,11] coordinates=asymmetric rounding=floor"}},
      {.name = "resize_grad",
       .doc = "Gradient of resize: adds up for each pixel the gradients of what it went into.",
       .formula = "dx[n, c, k, l] = sum of w[i, k] v[j, l] dy[n, c, i, j]",
       .operands = {{"dy", "(N, C, H', W')"}},
       .attributes = resize_gradient_attributes(),
       .plan_attributes = {extents_of_result("input_shape")},
       .infer = infer_resize_grad,
       .linear = {0},
       .flops = {2 * kMostTaps, Flops::Each::kFirst},
       .internal = true,
       .examples = {"resize_grad(f32[2,3,8,10]) size=[8,10] mode=bilinear input_shape=[2,3,4,5]",
                    "resize_grad(f32[1,2,3,4]) size=[3,4] input_shape=[1,2,7,9]"}},
  };
}

}  // namespace flow::ops
