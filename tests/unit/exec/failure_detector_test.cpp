// Which failures ranks find, and that one rank reports them: turn by turn, without threads or time.
#include "runtime/exec/ranks/monitor.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <set>

#include "tests/support/rank_messages.h"

namespace flow::exec {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using test::MessagingRank;
using test::RankMessages;

constexpr auto kPeriod = 500ms;
constexpr int kTurnsOfTimeout = 240;  // of 120 s
constexpr int kTurnsToEnd = 40;       // more than any rank of these tests takes once one is lost

/// Ranks whose turns come one after another.
struct DetectingRanks {
  explicit DetectingRanks(int size) : messages(size), status(static_cast<size_t>(size)) {
    MonitorOptions options{.period = kPeriod};
    for (int rank = 0; rank < size; ++rank)
      options.hosts.push_back(std::string("host") + static_cast<char>('a' + rank / 2));
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back(messages, rank);
      detectors.emplace_back(ranks.back(), options);
    }
  }
  void set_all(RankActivity activity, int64_t step) {
    for (RankStatus& one : status) one = {.activity = activity, .step = step};
  }
  /// A turn of each rank that runs; `stopped` ones have none.
  void turn(std::chrono::nanoseconds elapsed = kPeriod) {
    for (int rank = 0; rank < messages.ranks(); ++rank) {
      if (stopped.contains(rank) || ended.contains(rank)) continue;
      const auto at = static_cast<size_t>(rank);
      if (const auto end = detectors[at].turn(status[at], elapsed)) ended[rank] = *end;
    }
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) turn();
  }
  /// The only report, and the hint with it, of `by`; all but `without` have ended.
  RankEnd report(int by, int without = 0) const {
    RankEnd found;
    CHECK(ended.size() == status.size() - static_cast<size_t>(without));
    for (const auto& [rank, end] : ended) {
      INFO("rank " << rank << ": " << end.message);
      CHECK(end.message.empty() == (rank != by));
      if (rank == by) found = end;
    }
    return found;
  }

  RankMessages messages;
  std::deque<MessagingRank> ranks;
  std::deque<FailureDetector> detectors;
  std::vector<RankStatus> status;
  std::set<int> stopped;
  std::map<int, RankEnd> ended;
};

TEST_CASE("ranks that send heartbeats never end", "[exec]") {
  DetectingRanks ranks(4);
  for (int64_t step = 0; step < 100; ++step) {
    ranks.set_all(RankActivity::kComputing, step);
    ranks.turns(10);
  }
  CHECK(ranks.ended.empty());
}

TEST_CASE("rank 0 reports a rank that sends no heartbeats", "[exec]") {
  DetectingRanks ranks(4);
  ranks.set_all(RankActivity::kWaiting, 17);
  ranks.turns(3);
  ranks.stopped = {2};
  ranks.turns(kTurnsOfTimeout - 1);
  CHECK(ranks.ended.empty());
  ranks.turns(kTurnsToEnd);
  CHECK(ranks.report(0, 1).message ==
        "rank 2 (hostb) stopped responding in step 17: no heartbeat for 120 s");
  CHECK(ranks.report(0, 1).hint ==
        "check whether its process was killed, and the host and its network");
}

TEST_CASE("a rank that was never heard of is lost, too", "[exec]") {
  DetectingRanks ranks(2);
  ranks.stopped = {1};
  ranks.turns(kTurnsOfTimeout + kTurnsToEnd);
  CHECK(ranks.report(0, 1).message ==
        "rank 1 (hosta) stopped responding before step 0: no heartbeat for 120 s");
}

TEST_CASE("the lowest rank that is left reports the loss of rank 0", "[exec]") {
  DetectingRanks ranks(5);
  ranks.set_all(RankActivity::kComputing, 3);
  const int lost = GENERATE(1, 2, 3);  // ranks 0 to lost - 1
  for (int rank = 0; rank < lost; ++rank) ranks.stopped.insert(rank);
  ranks.turns(kTurnsOfTimeout + kTurnsToEnd);
  CHECK_THAT(ranks.report(lost, lost).message, StartsWith("rank 0 (hosta) stopped responding"));
}

TEST_CASE("more than eight ranks can be lost at once", "[exec]") {
  DetectingRanks ranks(12);
  for (int rank = 0; rank < 9; ++rank) ranks.stopped.insert(rank);
  ranks.turns(kTurnsOfTimeout + 2 * kTurnsToEnd);
  CHECK_THAT(ranks.report(9, 9).message, StartsWith("rank 0 (hosta) stopped responding"));
}

TEST_CASE("a library that refuses to send to a lost rank changes nothing", "[exec]") {
  DetectingRanks ranks(3);
  ranks.stopped = {1};
  ranks.messages.refuse(1);
  ranks.turns(kTurnsOfTimeout + kTurnsToEnd);
  CHECK_THAT(ranks.report(0, 1).message, StartsWith("rank 1 (hosta) stopped responding"));
}

TEST_CASE("a rank that computes one step for too long ends all, itself too", "[exec]") {
  const int slow = GENERATE(0, 2);
  DetectingRanks ranks(4);
  ranks.set_all(RankActivity::kWaiting, 17);
  ranks.status[static_cast<size_t>(slow)].activity = RankActivity::kComputing;
  ranks.turns(kTurnsOfTimeout);
  CHECK(ranks.ended.empty());
  ranks.turns(kTurnsToEnd);
  const RankEnd end = ranks.report(slow == 0 ? 1 : 0);
  CHECK(end.message ==
        (slow == 0 ? "rank 0 (hosta)" : "rank 2 (hostb)") +
            std::string(" has been computing step 17 for 121 s; the limit is 120 s"));
  CHECK(end.hint == "raise --rank-timeout where steps take longer");
}

TEST_CASE("steps that take long may take 20 times as long", "[exec]") {
  DetectingRanks ranks(2);
  ranks.set_all(RankActivity::kComputing, 1);
  for (RankStatus& one : ranks.status) one.median_step = 10s;
  ranks.turns(2 * 200);
  CHECK(ranks.ended.empty());
  ranks.turns(kTurnsToEnd);
  REQUIRE(ranks.ended.size() == 2);
  CHECK(ranks.ended[0].message.empty() != ranks.ended[1].message.empty());
  CHECK_THAT(ranks.ended[0].message + ranks.ended[1].message, Contains("the limit is 200 s"));
}

TEST_CASE("the median is that of the last steps", "[exec]") {
  StepDurations durations;
  CHECK(durations.median() == 0s);
  durations.add(5s);
  CHECK(durations.median() == 5s);
  durations.add(1h);
  durations.add(3s);
  CHECK(durations.median() == 5s);
  for (int i = 0; i < 32; ++i) durations.add(i % 2 == 0 ? 1s : 2s);
  CHECK(durations.median() == 2s);
}

TEST_CASE("whatever is not computing takes as long as it takes", "[exec]") {
  DetectingRanks ranks(2);
  ranks.set_all(GENERATE(RankActivity::kPreparing, RankActivity::kWaiting,
                         RankActivity::kDelivering, RankActivity::kSaving),
                5);
  ranks.turns(10 * kTurnsOfTimeout);
  CHECK(ranks.ended.empty());
}

TEST_CASE("rank 0 reports what a rank failed of", "[exec]") {
  const int failing = GENERATE(1, 2, 3);
  DetectingRanks ranks(4);
  ranks.set_all(RankActivity::kDelivering, 17);
  ranks.turns(2);
  const auto at = static_cast<size_t>(failing);
  ranks.detectors[at].fail(ranks.status[at], "job.yaml:3:1: disk full", "free some space");
  ranks.turns(8);
  const RankEnd end = ranks.report(0);
  CHECK(end.message == "rank " + std::to_string(failing) + (failing < 2 ? " (hosta)" : " (hostb)") +
                           ": step 17: job.yaml:3:1: disk full");
  CHECK(end.hint == "free some space");
}

TEST_CASE("ranks that fail together have one report", "[exec]") {
  DetectingRanks ranks(8);
  for (size_t i = 8; i-- > 1;) ranks.detectors[i].fail(ranks.status[i], "no data", "");
  ranks.turns(kTurnsToEnd);
  CHECK_THAT(ranks.report(0).message, EndsWith(": no data"));
}

TEST_CASE("the others wait for rank 0 where it fails, too", "[exec]") {
  DetectingRanks ranks(4);
  ranks.set_all(RankActivity::kComputing, 7);
  ranks.turns(2);
  ranks.status[0].fails = true;
  ranks.detectors[2].fail(ranks.status[2], "no data", "");
  ranks.turns(3 * kTurnsOfTimeout);
  CHECK(ranks.ended.empty());
  SECTION("until it ends them") {
    ranks.detectors[0].end_others();
    ranks.ended[0] = {};
    ranks.turns(kTurnsToEnd);
    ranks.report(-1);
  }
  SECTION("unless it is lost") {
    ranks.stopped = {0};
    ranks.turns(kTurnsOfTimeout + kTurnsToEnd);
    CHECK(ranks.report(1, 1).message == "rank 2 (hostb): step 7: no data");
  }
}

TEST_CASE("a rank that fails after rank 0 was lost is reported by the lowest left", "[exec]") {
  DetectingRanks ranks(4);
  ranks.stopped = {0};
  ranks.detectors[2].fail(ranks.status[2], "connection reset", "");
  ranks.turns(kTurnsToEnd);
  CHECK(ranks.report(1, 1).message == "rank 2 (hostb): connection reset");
}

TEST_CASE("a rank that is the last one left reports its own failure", "[exec]") {
  DetectingRanks ranks(2);
  ranks.stopped = {0};
  ranks.detectors[1].fail(ranks.status[1], "connection reset", "");
  ranks.turns(kTurnsToEnd);
  CHECK(ranks.report(1, 1).message == "rank 1 (hosta): connection reset");
}

TEST_CASE("a process that was stopped accuses nobody when it continues", "[exec]") {
  const int stopped = GENERATE(0, 1);
  DetectingRanks ranks(3);
  ranks.set_all(RankActivity::kComputing, 4);
  ranks.stopped = {stopped};
  ranks.turns(kTurnsOfTimeout / 2);
  ranks.stopped.clear();
  ranks.set_all(RankActivity::kComputing, 5);
  ranks.turn(60s);
  ranks.turns(10);
  CHECK(ranks.ended.empty());
}

TEST_CASE("a machine that slept ends no run", "[exec]") {
  DetectingRanks ranks(3);
  ranks.set_all(RankActivity::kComputing, 4);
  ranks.turns(2);
  ranks.turn(8h);
  ranks.turns(2);
  CHECK(ranks.ended.empty());
}

TEST_CASE("a process that was given up ends without a word when it continues", "[exec]") {
  const int stopped = GENERATE(0, 2);
  DetectingRanks ranks(3);
  ranks.stopped = {stopped};
  ranks.turns(kTurnsOfTimeout + kTurnsToEnd);
  CHECK(ranks.ended.size() == 2);
  ranks.stopped.clear();
  ranks.turn(200s);
  ranks.turns(kTurnsToEnd);
  ranks.report(stopped == 0 ? 1 : 0);
}

TEST_CASE("ranks that leave are not missed", "[exec]") {
  DetectingRanks ranks(3);
  ranks.turns(2);
  for (const int rank : {2, 0, 1}) {
    const auto at = static_cast<size_t>(rank);
    ranks.status[at].leaves = true;
    ranks.detectors[at].send_heartbeat(ranks.status[at]);
    ranks.stopped.insert(rank);
    ranks.turns(2 * kTurnsOfTimeout);
    CHECK(ranks.ended.empty());
  }
}

TEST_CASE("long messages are cut between characters", "[exec]") {
  DetectingRanks ranks(2);
  std::string message = "x";
  for (int i = 0; i < 3000; ++i) message += "\u00e4";
  ranks.detectors[1].fail(ranks.status[1], message, message);
  ranks.turns(kTurnsToEnd);
  const RankEnd end = ranks.report(0);
  for (const std::string& text : {end.message, end.hint}) {
    CHECK(text.size() > 900);
    CHECK(text.substr(text.size() - 2) == "\u00e4");
  }
}

TEST_CASE("a message that is not a monitor's is ignored", "[exec]") {
  DetectingRanks ranks(2);
  ranks.messages.post(1, 0, std::vector<std::byte>(3));
  ranks.turns(3);
  CHECK(ranks.ended.empty());
}

}  // namespace
}  // namespace flow::exec
