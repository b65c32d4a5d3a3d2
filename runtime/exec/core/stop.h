// Why a run ends early.
#pragma once

#include <cstdint>
#include <functional>

namespace flow::exec {

/// What asks a run to end before its last step.
enum class Stop : uint8_t { kNone, kSignal, kCommand /* of a hook */, kHook /* its condition */ };

/// Of a function that returns the signal to stop for, or 0, and may be empty.
inline Stop stop_for(const std::function<int()>& signal) {
  return signal && signal() != 0 ? Stop::kSignal : Stop::kNone;
}

}  // namespace flow::exec
