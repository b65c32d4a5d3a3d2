// Hand-over between stages.
#include "runtime/exec/core/thread_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

namespace flow::exec {
namespace {

TEST_CASE("steps that are complete are not awaited", "[exec]") {
  StepCounter counter(5);
  SpinPolicy spin_policy;
  CHECK(counter.wait(5, spin_policy));
  CHECK(counter.completed() == 5);
}

TEST_CASE("a closed counter still has the steps that were complete and no others", "[exec]") {
  StepCounter counter(0);
  SpinPolicy spin_policy;
  counter.complete(3);
  counter.close();
  CHECK(counter.wait(3, spin_policy));
  CHECK_FALSE(counter.wait(4, spin_policy));
  counter.complete(4);
  CHECK(counter.wait(4, spin_policy));
}

TEST_CASE("what was written before a step is seen after it, twenty thousand times", "[exec]") {
  constexpr int64_t kSteps = 20000;
  StepCounter there(0), back(0);
  int64_t value = 0;  // handed to and fro, guarded by the counters alone
  std::thread peer([&] {
    SpinPolicy spin_policy;
    for (int64_t step = 1; there.wait(step, spin_policy); ++step) {
      value += step;
      back.complete(step);
    }
  });
  SpinPolicy spin_policy;
  bool intact = true;
  for (int64_t step = 1; step <= kSteps; ++step) {
    there.complete(step);
    back.wait(step, spin_policy);
    intact &= value == step * (step + 1) / 2;
  }
  there.close();
  peer.join();
  CHECK(intact);
}

TEST_CASE("a waiter that went to sleep is woken by a step and by the end", "[exec]") {
  StepCounter counter(0);
  int64_t seen = 0;
  std::thread waiter([&] {
    SpinPolicy spin_policy;
    while (counter.wait(seen + 1, spin_policy)) ++seen;
  });
  for (int64_t step = 1; step <= 3; ++step) {
    // Longer than anybody spins; should the waiter be awake all the same, nothing fails.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    counter.complete(step);
  }
  counter.close();
  waiter.join();
  CHECK(seen == 3);
}

TEST_CASE("who sleeps for several steps is woken by as many, at once where asked, and by the end",
          "[exec]") {
  StepCounter counter(0);
  std::atomic<int64_t> seen{0};
  std::thread waiter([&] {
    SpinPolicy spin_policy;
    while (counter.wait(seen + 1, spin_policy, 10)) ++seen;
  });
  const auto await = [&](int64_t steps) {
    while (seen != steps) std::this_thread::yield();
  };
  counter.complete(1, true);
  await(1);
  for (int64_t step = 2; step <= 12; ++step) counter.complete(step, false);
  await(12);
  counter.complete(13, false);
  counter.complete(14, true);
  await(14);
  counter.complete(15, false);
  counter.close();
  waiter.join();
  CHECK(seen == 15);
}

}  // namespace
}  // namespace flow::exec
