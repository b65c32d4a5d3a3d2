// Maps from indices to indices that are the same on every device: those of windows over images, and
// those of a shard of the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow {

/// The windows along one axis of images.
struct UnfoldedAxis {
  int64_t extent, windows, size, stride, dilation, before;

  /// Returns the index of place `k` of window `i`. It is outside [0, extent) in the padding.
  FLOW_HOST_DEVICE int64_t at(int64_t i, int64_t k) const {
    return i * stride + k * dilation - before;
  }
  /// Returns the window whose place `k` is at `element`, or -1 if there is none.
  FLOW_HOST_DEVICE int64_t window(int64_t element, int64_t k) const {
    const int64_t start = element + before - k * dilation;
    return start >= 0 && start % stride == 0 && start / stride < windows ? start / stride : -1;
  }
};

/// The map between images [planes, rows.extent, columns.extent] and their windows [planes,
/// rows.size, columns.size, rows.windows, columns.windows].
struct UnfoldedImages {
  int64_t planes;
  UnfoldedAxis rows, columns;

  FLOW_HOST_DEVICE int64_t windows() const { return rows.windows * columns.windows; }
  FLOW_HOST_DEVICE int64_t places() const { return rows.size * columns.size; }
  FLOW_HOST_DEVICE int64_t pixels() const { return rows.extent * columns.extent; }

  /// Returns an element of the windows, which is 0 in the padding.
  template <typename T>
  FLOW_HOST_DEVICE T unfolded(const T* images, int64_t element) const {
    const int64_t line = element / columns.windows, place = line / rows.windows;
    const int64_t plane = place / places(), own = place % places();
    const int64_t row = rows.at(line % rows.windows, own / columns.size);
    const int64_t column = columns.at(element % columns.windows, own % columns.size);
    const bool inside = 0 <= row && row < rows.extent && 0 <= column && column < columns.extent;
    return inside ? images[(plane * rows.extent + row) * columns.extent + column] : T(0);
  }

  /// Returns the sum of all window elements that belong to a pixel, added place by place.
  template <typename T>
  FLOW_HOST_DEVICE double folded(const T* unfolded, int64_t pixel) const {
    const int64_t plane = pixel / pixels(), own = pixel % pixels();
    double sum = 0;
    for (int64_t u = 0; u < rows.size; ++u) {
      const int64_t i = rows.window(own / columns.extent, u);
      if (i < 0) continue;
      for (int64_t v = 0; v < columns.size; ++v) {
        const int64_t j = columns.window(own % columns.extent, v);
        if (j < 0) continue;
        const int64_t place = (plane * rows.size + u) * columns.size + v;
        sum += static_cast<double>(unfolded[(place * rows.windows + i) * columns.windows + j]);
      }
    }
    return sum;
  }
};

/// Returns the map of an `unfold` or `fold` step with these attributes. `images` is [N, C, H, W].
template <typename Attributes>
UnfoldedImages unfolded_images(const Attributes& attributes, const Shape& images) {
  using Integers = std::vector<int64_t>;
  const auto axis = [&](size_t i) {
    const auto number = [&](const char* name) {
      return attributes.template get<Integers>(name)[i];
    };
    const auto& pads = attributes.template get<Integers>("padding");
    UnfoldedAxis one{images[static_cast<int>(i) + 2], 0,
                     number("kernel_size"),           number("strides"),
                     number("dilation_rate"),         pads[2 * i]};
    const int64_t padded = one.extent + pads[2 * i] + pads[2 * i + 1];
    one.windows = (padded - one.dilation * (one.size - 1) - 1) / one.stride + 1;
    return one;
  };
  return {images[0] * images[1], axis(0), axis(1)};
}

/// The position of a shard's elements in the whole batch. A shard consists of runs of elements that
/// are also adjacent in the whole batch.
struct WholeIndex {
  int64_t run;       // elements in a run
  int64_t distance;  // distance between the starts of two runs in the whole batch
  // The distance between the starts of two shards; 0 if all shards have the same elements.
  int64_t per_shard;

  /// Returns the index in the whole batch of an element of a shard.
  FLOW_HOST_DEVICE int64_t at(int64_t element, int64_t shard) const {
    return element / run * distance + shard * per_shard + element % run;
  }
};

/// `shape` is that of a shard. REQUIRES: it has elements.
inline WholeIndex whole_index(const Shape& shape, int batch_axis, int64_t shards) {
  if (batch_axis < 0 || shards == 1) return {shape.elements(), shape.elements(), 0};
  const int64_t run = shape.elements(batch_axis, shape.rank());
  return {run, run * shards, run};
}

}  // namespace flow
