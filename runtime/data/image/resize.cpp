// Resizes in two passes. The vertical pass sums weighted rows; the horizontal pass transposes bands
// of rows so that it can sum columns likewise.
#include "runtime/data/image/resize.h"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/data/image/filter.h"
#include "runtime/data/image/transpose.h"

namespace flow::data {
namespace {

constexpr size_t kLanes = 32;  // samples that are summed side by side

/// 32 bits hold a sum of 8-bit samples, because the absolute weights add to at most 1.25 * 2^22.
template <typename Sample>
using SumOf = std::conditional_t<sizeof(Sample) == 1, int32_t, int64_t>;

template <typename Sample>
constexpr SumOf<Sample> kHalf = SumOf<Sample>{1} << (kWeightBits - 1);

template <typename Sample>
Sample to_sample(SumOf<Sample> sum) {
  constexpr SumOf<Sample> kMost = static_cast<Sample>(-1);
  return static_cast<Sample>(std::clamp<SumOf<Sample>>(sum >> kWeightBits, 0, kMost));
}

/// Computes the weighted sums of the kLanes columns of `count` rows.
template <typename Sample>
[[gnu::always_inline]] inline void sum_lanes(Rows<const Sample> from, const int32_t* weights,
                                             int64_t count, Sample* to) {
  using Sum = SumOf<Sample>;
  std::array<Sum, kLanes> sums;
  for (Sum& sum : sums) sum = kHalf<Sample>;
  const Sample* row = from.data;
  for (int64_t i = 0; i < count; ++i, row += from.stride)
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += Sum{weights[i]} * row[lane];
  for (size_t lane = 0; lane < kLanes; ++lane) to[lane] = to_sample<Sample>(sums[lane]);
}

/// Does the same with `width` columns. REQUIRES: width >= kLanes. The last lanes overlap others if
/// kLanes does not divide the width.
template <typename Sample>
[[gnu::always_inline]] inline void sum_columns(Rows<const Sample> from, const int32_t* weights,
                                               int64_t count, size_t width, Sample* to) {
  for (size_t i = 0; i < width; i += kLanes) {
    const size_t x = std::min(i, width - kLanes);
    sum_lanes<Sample>({from.data + x, from.stride}, weights, count, to + x);
  }
}

FLOW_VECTORIZED void sum_rows(Rows<const uint8_t> from, const int32_t* weights, int64_t count,
                              size_t width, uint8_t* to) {
  sum_columns(from, weights, count, width, to);
}

FLOW_VECTORIZED void sum_rows(Rows<const uint16_t> from, const int32_t* weights, int64_t count,
                              size_t width, uint16_t* to) {
  sum_columns(from, weights, count, width, to);
}

/// Computes one weighted sum. Used for images that have too few rows or columns for the functions
/// above.
template <typename Sample>
Sample sum_one(const Sample* from, size_t stride, const int32_t* weights, int64_t count) {
  SumOf<Sample> sum = kHalf<Sample>;
  for (int64_t i = 0; i < count; ++i, from += stride) sum += SumOf<Sample>{weights[i]} * *from;
  return to_sample<Sample>(sum);
}

/// The horizontal pass over bands of kLanes rows. The last band overlaps another if kLanes does not
/// divide the rows. REQUIRES: rows >= kLanes; the axis has kTransposed inputs and outputs or more.
template <typename Sample>
void filter_bands(Rows<const Sample> from, size_t rows, const FilterAxis& axis, Rows<Sample> to) {
  const auto first = static_cast<size_t>(axis.first_in());
  const size_t in = static_cast<size_t>(axis.end_in()) - first, out = axis.taps.size();
  std::vector<Sample> columns(in * kLanes), sums(out * kLanes);
  for (size_t i = 0; i < rows; i += kLanes) {
    const size_t y = std::min(i, rows - kLanes);
    transpose({from.at(y, first), from.stride}, kLanes, in, Rows<Sample>{columns.data(), kLanes});
    for (size_t x = 0; x < out; ++x) {
      const Taps& taps = axis.taps[x];
      const size_t column = static_cast<size_t>(taps.first) - first;
      sum_rows({columns.data() + column * kLanes, kLanes}, axis.weights.data() + taps.weight,
               taps.count, kLanes, sums.data() + x * kLanes);
    }
    transpose(Rows<const Sample>{sums.data(), kLanes}, out, kLanes,
              Rows<Sample>{to.at(y, 0), to.stride});
  }
}

template <typename Sample>
void filter_width(Rows<const Sample> from, size_t rows, const FilterAxis& axis, Rows<Sample> to) {
  const int64_t inputs = axis.end_in() - axis.first_in();
  if (rows >= kLanes && std::min<size_t>(axis.taps.size(), inputs) >= kTransposed)
    return filter_bands(from, rows, axis, to);
  for (size_t y = 0; y < rows; ++y)
    for (size_t x = 0; x < axis.taps.size(); ++x) {
      const Taps& taps = axis.taps[x];
      *to.at(y, x) = sum_one(from.at(y, static_cast<size_t>(taps.first)), 1,
                             axis.weights.data() + taps.weight, taps.count);
    }
}

/// The vertical pass. Row 0 of `from` is the axis's first input.
template <typename Sample>
void filter_height(Rows<const Sample> from, size_t width, const FilterAxis& axis, Sample* to) {
  for (const Taps& taps : axis.taps) {
    const auto first = static_cast<size_t>(taps.first - axis.first_in());
    const int32_t* weights = axis.weights.data() + taps.weight;
    if (width >= kLanes)
      sum_rows({from.at(first, 0), from.stride}, weights, taps.count, width, to);
    else
      for (size_t x = 0; x < width; ++x)
        to[x] = sum_one(from.at(first, x), from.stride, weights, taps.count);
    to += width;
  }
}

/// The weights of an axis, or none if it keeps its length. An axis that is only cut is not
/// filtered.
std::optional<FilterAxis> axis_of(int64_t in, int64_t out, int64_t first, int64_t count,
                                  Filter filter) {
  if (in == out) return {};
  return filter_axis(in, out, first, count, filter);
}

/// The passes over all channels of one image.
template <typename Sample>
void filter_image(const Image& image, const Box& from, ImageSize size, const Box& part,
                  Filter filter, Image& out) {
  const auto across = axis_of(from.width, size.width, part.left, part.width, filter);
  const auto down = axis_of(from.height, size.height, part.top, part.height, filter);
  const int64_t first_row = down ? down->first_in() : part.top;
  const auto rows =
      static_cast<size_t>((down ? down->end_in() : part.top + part.height) - first_row);
  const auto width = static_cast<size_t>(part.width), stride = static_cast<size_t>(image.width);
  std::vector<Sample> middle(across && down ? rows * width : 0);
  for (int64_t c = 0; c < image.channels; ++c) {
    const Sample* plane = image.plane<Sample>(c).data();
    Rows<const Sample> source{plane + (from.top + first_row) * image.width + from.left, stride};
    Sample* to = out.plane<Sample>(c).data();
    if (across) {
      const Rows<Sample> target{down ? middle.data() : to, width};
      filter_width(source, rows, *across, target);
      source = {target.data, width};
    } else {
      source.data += part.left;
    }
    if (down)
      filter_height(source, width, *down, to);
    else if (!across)
      for (size_t y = 0; y < rows; ++y) std::copy_n(source.at(y, 0), width, to + y * width);
  }
}

/// Returns the source of output x: the input whose center is nearest to that of the output.
int64_t nearest(int64_t x, int64_t in, int64_t out) { return (2 * x + 1) * in / (2 * out); }

template <typename Sample>
void take_nearest(const Image& image, const Box& from, ImageSize size, const Box& part,
                  Image& out) {
  std::vector<int64_t> columns(static_cast<size_t>(part.width));
  for (int64_t x = 0; x < part.width; ++x)
    columns[static_cast<size_t>(x)] = from.left + nearest(part.left + x, from.width, size.width);
  for (int64_t c = 0; c < image.channels; ++c) {
    Sample* to = out.plane<Sample>(c).data();
    for (int64_t y = 0; y < part.height; ++y) {
      const int64_t row = from.top + nearest(part.top + y, from.height, size.height);
      const Sample* source = image.plane<Sample>(c).data() + row * image.width;
      for (const int64_t x : columns) *to++ = source[x];
    }
  }
}

bool contains(ImageSize size, const Box& box) {
  return box.height > 0 && box.width > 0 && box.top >= 0 && box.left >= 0 &&
         box.top <= size.height - box.height && box.left <= size.width - box.width;
}

template <typename Sample>
void resize_samples(const Image& image, const Box& from, ImageSize size, const Box& part,
                    Filter filter, Image& out) {
  if (filter == Filter::kNearest)
    take_nearest<Sample>(image, from, size, part, out);
  else
    filter_image<Sample>(image, from, size, part, filter, out);
}

}  // namespace

void resize_part(const Image& image, const Box& from, ImageSize size, const Box& part,
                 Filter filter, Image& out) {
  constexpr int64_t kMostSide = INT32_MAX;
  FLOW_CHECK(&image != &out && contains(image.size(), from) && contains(size, part));
  FLOW_CHECK(std::max({from.height, from.width, size.height, size.width}) <= kMostSide);
  out.reshape(image.channels, part.height, part.width, image.bits);
  if (image.bits == 8)
    resize_samples<uint8_t>(image, from, size, part, filter, out);
  else
    resize_samples<uint16_t>(image, from, size, part, filter, out);
}

void resize(const Image& image, ImageSize size, Filter filter, Image& out) {
  resize_part(image, {0, 0, image.height, image.width}, size, {0, 0, size.height, size.width},
              filter, out);
}

void crop(const Image& image, const Box& box, Image& out) {
  resize_part(image, box, {box.height, box.width}, {0, 0, box.height, box.width}, Filter::kNearest,
              out);
}

}  // namespace flow::data
