// Division by a number that is known before the launch: kernels multiply instead.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/base/ceil_div.h"
#include "runtime/base/host_device.h"

namespace flow::cuda {

/// Numbers below this one are divided by a multiplication, in 32 bits.
inline constexpr int64_t kNarrow = int64_t{1} << 31;

template <typename Index>
struct Division {
  Index quotient, remainder;
};

/// Divides many numbers by one: n / d is n * factor / 2^shift for n < 2^31, where shift = 31 +
/// ceil(log2 d) and factor = ceil(2^shift / d), which has 32 bits. The factor exceeds 2^shift / d
/// by less than 1, so that the quotient's error, below n / 2^shift < 1 / d, never reaches an
/// integer.
class Divider {
 public:
  Divider() = default;  // by 1
  /// By 0 nothing is divided.
  explicit Divider(int64_t divisor) : divisor_(divisor) {
    const bool beyond = divisor < 1 || divisor > kNarrow;  // all narrow quotients are 0
    const auto d = static_cast<uint64_t>(beyond ? 1 : divisor);
    shift_ = 31 + static_cast<uint32_t>(std::bit_width(d - 1));
    factor_ = beyond ? 0 : static_cast<uint32_t>(ceil_div(uint64_t{1} << shift_, d));
  }

  /// REQUIRES: n >= 0; n < kNarrow where Index has 32 bits.
  template <typename Index>
  FLOW_HOST_DEVICE Division<Index> divide(Index n) const {
    Index quotient;
    if constexpr (sizeof(Index) == sizeof(uint32_t))
      quotient = static_cast<Index>(uint64_t{static_cast<uint32_t>(n)} * factor_ >> shift_);
    else
      quotient = n / divisor_;
    return {quotient, n - quotient * static_cast<Index>(divisor_)};
  }

 private:
  int64_t divisor_ = 1;
  uint32_t factor_ = uint32_t{1} << 31, shift_ = 31;
};

}  // namespace flow::cuda
