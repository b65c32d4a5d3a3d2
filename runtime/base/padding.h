// Where the elements of a padded axis come from, and where they went, on every device.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/host_device.h"

namespace flow {

/// What stands around the elements that were there.
enum class PadMode : uint8_t { kConstant, kReflect, kEdge };

/// Of a plan's "constant", "reflect" or "edge".
inline PadMode pad_mode(std::string_view name) {
  if (name == "reflect") return PadMode::kReflect;
  return name == "edge" ? PadMode::kEdge : PadMode::kConstant;
}

/// One axis: `before` places in front of n, `after` behind them. REQUIRES: kReflect: less than n on
/// each side.
struct PaddedAxis {
  int64_t n, before, after;

  /// The place in [0, n) that place `i` shows; -1 where it shows the constant.
  FLOW_HOST_DEVICE int64_t source(PadMode mode, int64_t i) const {
    const int64_t place = i - before;
    if (0 <= place && place < n) return place;
    if (mode == PadMode::kConstant) return -1;
    if (mode == PadMode::kEdge) return place < 0 ? 0 : n - 1;
    return place < 0 ? -place : 2 * (n - 1) - place;
  }

  /// How many places show place `at`, itself among them; not of a constant.
  FLOW_HOST_DEVICE int64_t copies(PadMode mode, int64_t at) const {
    return 1 + in_front(mode, at) + behind(mode, at);
  }

  /// The places that show `at`: itself, then those in front of it, then those behind.
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

}  // namespace flow
