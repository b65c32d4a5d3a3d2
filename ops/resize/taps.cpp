// What resizes along one axis read, as ONNX's Resize defines it.
#include "ops/resize/taps.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace flow::ops {
namespace {

using Tap = std::pair<int64_t, double>;  // index, weight
using TapLists = std::vector<std::vector<Tap>>;

/// How one axis is resized.
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
  double scale, cubic;  // scale 0: the quotient of the extents
  bool excludes;
  int64_t in, out;

  /// Places of the result in those of x. Quotients of integers are rounded once.
  double unscaled(double place) const {
    return scale > 0 ? place / scale : place * static_cast<double>(in) / static_cast<double>(out);
  }

  /// Where element i of the result lies in x.
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

  /// Keys, Cubic convolution interpolation for digital image processing, 1981; `cubic` is its a.
  double cubic_weight(double distance) const {
    const double a = cubic, d = std::abs(distance);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
  }

  /// Places may lie outside x.
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

  /// Those of one element in ascending order, each place once; the edge continues outside x.
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

}  // namespace flow::ops
