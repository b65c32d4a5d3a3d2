// Maps between the elements of a padded array and those of the original array, shared by all
// devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/limits.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow {

/// The values that surround the original elements.
enum class PadMode : uint8_t { kConstant, kReflect, kEdge };

/// One axis: `before` places before n elements, and `after` places after them. REQUIRES: for
/// kReflect, `before` and `after` are less than n.
struct PaddedAxis {
  int64_t n, before, after;

  FLOW_HOST_DEVICE int64_t large() const { return before + n + after; }
  /// Returns the place in [0, n) whose element place `i` copies, or -1 if place `i` contains the
  /// constant.
  FLOW_HOST_DEVICE int64_t source(PadMode mode, int64_t i) const {
    const int64_t place = i - before;
    if (0 <= place && place < n) return place;
    if (mode == PadMode::kConstant) return -1;
    if (mode == PadMode::kEdge) return place < 0 ? 0 : n - 1;
    return place < 0 ? -place : 2 * (n - 1) - place;
  }

  /// Returns the number of places with the element of place `at`, including `at` itself. The mode
  /// must not be kConstant.
  FLOW_HOST_DEVICE int64_t copies(PadMode mode, int64_t at) const {
    return 1 + in_front(mode, at) + behind(mode, at);
  }

  /// Returns place `number` among those with the element of `at`: `at` itself comes first, then the
  /// copies before the elements, then the copies after them.
  FLOW_HOST_DEVICE int64_t copy(PadMode mode, int64_t at, int64_t number) const {
    const int64_t front = in_front(mode, at);
    if (number == 0) return before + at;
    if (number <= front) return mode == PadMode::kEdge ? number - 1 : before - at;
    return before + (mode == PadMode::kEdge ? n - 1 + number - front : 2 * (n - 1) - at);
  }

 private:
  FLOW_HOST_DEVICE int64_t in_front(PadMode mode, int64_t at) const {
    if (mode == PadMode::kEdge) return at == 0 ? before : 0;
    return 0 < at && at <= before ? 1 : 0;
  }
  FLOW_HOST_DEVICE int64_t behind(PadMode mode, int64_t at) const {
    if (mode == PadMode::kEdge) return at == n - 1 ? after : 0;
    return at < n - 1 && n - 1 - at <= after ? 1 : 0;
  }
};

/// All axes, from the outermost to the innermost.
struct Padding {
  int rank = 0;
  PadMode mode = PadMode::kConstant;
  PaddedAxis axes[ops::kMaxRank] = {};

  /// Returns the element of the smaller array that element i of the larger array copies, or -1 if
  /// element i is the constant.
  FLOW_HOST_DEVICE int64_t source(int64_t i) const {
    int64_t from = 0, stride = 1;
    for (int k = rank - 1; k >= 0; --k) {
      const int64_t place = axes[k].source(mode, i % axes[k].large());
      if (place < 0) return -1;
      from += place * stride;
      stride *= axes[k].n;
      i /= axes[k].large();
    }
    return from;
  }
};

/// Returns the padding of a step of `pad` or of its gradient. `small` is the shape without padding.
template <typename Request>
Padding padding_of(const Request& request, const Shape& small) {
  const auto& attributes = request.step.attributes;
  const auto& pads = attributes.template get<std::vector<int64_t>>("paddings");
  const auto& mode = attributes.template get<std::string>("mode");
  Padding padding;
  padding.rank = small.rank();
  padding.mode = mode == "reflect" ? PadMode::kReflect
                 : mode == "edge"  ? PadMode::kEdge
                                   : PadMode::kConstant;
  for (int axis = 0; axis < small.rank(); ++axis) {
    const size_t pair = 2 * static_cast<size_t>(axis);
    padding.axes[axis] = {small[axis], pads[pair], pads[pair + 1]};
  }
  return padding;
}

}  // namespace flow
