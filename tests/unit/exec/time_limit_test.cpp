// A limit expires unless what it limits is over.
#include "runtime/exec/ranks/monitor.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <optional>

namespace flow::exec {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a time limit that expires says so once", "[exec]") {
  std::promise<void> expired;
  auto said = expired.get_future();
  const auto start = std::chrono::steady_clock::now();
  const TimeLimit limit(1s, [&] { expired.set_value(); });  // a second call would throw
  REQUIRE(said.wait_for(5min) == std::future_status::ready);
  CHECK(std::chrono::steady_clock::now() - start >= 1s);
}

TEST_CASE("a time limit that is over says nothing, and does not wait", "[exec]") {
  bool expired = false;
  std::optional<TimeLimit> limit(std::in_place, 1h, [&] { expired = true; });
  limit.reset();
  CHECK_FALSE(expired);
}

}  // namespace
}  // namespace flow::exec
