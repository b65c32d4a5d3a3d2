// Monitors on threads: how the run speaks to them, and how they end.
#include "runtime/exec/ranks/monitor.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/rank_messages.h"

namespace flow::exec {
namespace {

using namespace std::chrono_literals;

/// Ranks, each with a monitor, and how they ended.
struct MonitoredRanks {
  explicit MonitoredRanks(int size, std::chrono::milliseconds period = 10ms,
                          std::chrono::milliseconds timeout = 1h)
      : messages(size), ends(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) ranks.emplace_back(messages, rank);
    for (int rank = 0; rank < size; ++rank)
      monitors.push_back(std::make_unique<Monitor>(
          ranks[static_cast<size_t>(rank)],
          MonitorOptions{period, timeout, {}, [this, rank](const auto& message, const auto&) {
                           ends[static_cast<size_t>(rank)].set_value(message);
                         }}));
  }
  /// What a rank says at its end.
  std::string end(size_t rank) {
    auto said = ends[rank].get_future();
    REQUIRE(said.wait_for(5min) == std::future_status::ready);
    return said.get();
  }
  /// Waits until that many more messages were sent.
  void await_messages(size_t count) const {
    const size_t before = messages.posted();
    for (int i = 0; i < 60'000 && messages.posted() < before + count; ++i)
      std::this_thread::sleep_for(5ms);
    REQUIRE(messages.posted() >= before + count);
  }

  test::RankMessages messages;
  std::deque<test::MessagingRank> ranks;
  std::vector<std::promise<std::string>> ends;  // set once, or they throw
  std::vector<std::unique_ptr<Monitor>> monitors;
};

TEST_CASE("a rank that fails ends all, and returns once it has ended", "[exec]") {
  MonitoredRanks ranks(3, 100ms);  // rank 0 has several periods to speak before rank 1 does
  ranks.monitors[2]->enter(RankActivity::kComputing, 17);
  ranks.monitors[2]->fail("disk full");
  CHECK(ranks.end(2).empty());
  CHECK(ranks.end(1).empty());
  CHECK(ranks.end(0) == "rank 2: step 17: disk full");
  ranks.monitors[2]->fail("again");  // it has ended
}

TEST_CASE("rank 0 that fails ends the others when its monitor ends", "[exec]") {
  MonitoredRanks ranks(3);
  ranks.monitors[0]->fail("disk full");
  ranks.await_messages(100);
  ranks.monitors[0].reset();
  CHECK(ranks.end(1).empty());
  CHECK(ranks.end(2).empty());
  CHECK(ranks.ends[0].get_future().wait_for(0s) == std::future_status::timeout);
}

TEST_CASE("a rank that is cut off is reported by rank 0", "[exec]") {
  MonitoredRanks ranks(2, 10ms, 100ms);
  ranks.messages.cut_off(1);
  CHECK_THAT(ranks.end(0), Catch::Matchers::StartsWith("rank 1 stopped responding before step 0"));
  ranks.end(1);
}

TEST_CASE("a monitor stops at once, however long its period is", "[exec]") {
  MonitoredRanks ranks(2, 24h);
  ranks.monitors.clear();
  CHECK(ranks.messages.posted() == 0);
}

TEST_CASE("a rank may leave and end its monitor while others work", "[exec]") {
  MonitoredRanks ranks(2, 10ms, 1s);
  ranks.await_messages(4);
  ranks.monitors[1]->leave();
  ranks.await_messages(120);  // for more than the timeout
  ranks.monitors[0]->leave();
  ranks.monitors.clear();
  for (auto& end : ranks.ends) CHECK(end.get_future().wait_for(0s) == std::future_status::timeout);
}

}  // namespace
}  // namespace flow::exec
