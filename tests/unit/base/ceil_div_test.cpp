// Integer division that rounds up.
#include "runtime/base/host_device.h"

#include <catch2/catch.hpp>
#include <cstdint>

namespace flow {
namespace {

TEST_CASE("division rounds up, to whole parts and to whole units", "[base]") {
  CHECK(ceil_div(0, 4) == 0);
  CHECK(ceil_div(1, 4) == 1);
  CHECK(ceil_div(4, 4) == 1);
  CHECK(ceil_div(int64_t{1} << 40, 3) == 366503875926);
  CHECK(round_up(size_t{0}, 64) == 0);
  CHECK(round_up(size_t{65}, 64) == 128);
}

}  // namespace
}  // namespace flow
