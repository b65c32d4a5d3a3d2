// The decision as one number, of which the largest wins.
#include "runtime/exec/ranks/next_call.h"

#include <cstdint>

#include "runtime/exec/ranks/together.h"

namespace flow::exec {
namespace {

constexpr uint8_t kLaunches = 0, kSaves = 1, kStops = 2, kNotReady = 255;

uint8_t number_of(const NextCall& call) {
  if (call.launches) return call.saves ? kSaves : kLaunches;
  if (call.stop == Stop::kNone) return kNotReady;
  return static_cast<uint8_t>(kStops + static_cast<uint8_t>(call.stop));
}

}  // namespace

NextCall agree_on_call(Collectives& ranks, const NextCall& mine) {
  const uint8_t all = agree(ranks, number_of(mine));
  if (all < kStops) return {.saves = all == kSaves};
  return {.launches = false,
          .stop = all == kNotReady ? Stop::kNone : static_cast<Stop>(all - kStops)};
}

}  // namespace flow::exec
