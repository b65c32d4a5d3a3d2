// Ranks that are threads of one process: where one of them fails, nobody waits for it.
#include "runtime/exec/ranks/ranks.h"

#include <catch2/catch.hpp>
#include <future>

#include "runtime/base/error.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/run/follower.h"

namespace flow::exec {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

FollowerThreads::MakeBackendOf no_backend() {
  return [](int, const plan::Plan&, const plan::Job&) -> std::unique_ptr<Backend> {
    throw RunError("no device");
  };
}

TEST_CASE("places of operations are used again", "[exec]") {
  LocalRanks local(2);
  std::byte first{1}, second{};
  size_t most = 0;
  for (int i = 0; i < 100; ++i) {
    const auto sent = local.rank(0).broadcast(0, {&first, 1});
    const auto received = local.rank(1).broadcast(0, {&second, 1});
    CHECK_FALSE(local.rank(0).test(sent));
    CHECK(local.rank(1).test(received));
    CHECK(local.rank(0).test(sent));
    most = std::max(most, sent);
  }
  CHECK(second == std::byte{1});
  CHECK(most == 0);
}

TEST_CASE("what a rank waits for throws the failure of another", "[exec]") {
  LocalRanks local(2);
  auto waiting =
      std::async(std::launch::async, [&] { return message_of([&] { agree(local.rank(1), 0); }); });
  local.rank(0).fail(std::make_exception_ptr(RunError("no memory")));
  local.rank(0).fail(std::make_exception_ptr(RunError("a later failure")));
  CHECK(waiting.get() == "no memory");
  CHECK(message_of([&] { local.rank(1).require_alive(); }) == "no memory");
  CHECK(message_of([&] { local.rank(1).poll(); }) == "no memory");
}

TEST_CASE("sizes that differ between ranks fail on all of them", "[exec]") {
  LocalRanks local(2);
  std::array<std::byte, 2> two{};
  const auto sent = local.rank(0).broadcast(0, two);
  const auto received = local.rank(1).broadcast(0, std::span(two).first(1));
  CHECK(message_of([&] { local.rank(1).test(received); }).find("2 bytes sent, 1 expected") !=
        std::string::npos);
  CHECK(message_of([&] { local.rank(0).test(sent); }).find("2 bytes sent, 1 expected") !=
        std::string::npos);
}

TEST_CASE("followers end with the leader, whether it succeeds or not", "[exec]") {
  FollowerThreads at_end({"GPU 0", "GPU 1", "GPU 2"}, no_backend(), {});
  at_end.end();
  const FollowerThreads left({"GPU 0", "GPU 1"}, no_backend(), {});
}

TEST_CASE("what fails on a follower names its device", "[exec]") {
  FollowerThreads threads({"GPU 0", "GPU 7"}, no_backend(), {});
  const std::string message = message_of([&] {
    threads.leader().send({.kind = Order::Kind::kExecute});  // nothing is prepared
    agree(threads.leader().collectives(), 0);  // the order may still have come through
  });
  CHECK(message.starts_with("GPU 7: "));
  CHECK(message_of([&] { threads.end(); }).empty());
}

}  // namespace
}  // namespace flow::exec
