// Waits for a counter by spinning while the peer is quick, then by sleeping. Also contains the
// threads that wait for work.
#include "runtime/exec/core/thread_pool.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

using Clock = std::chrono::steady_clock;

/// Spinning for a peer that takes longer than kQuick would waste a core, and compared to that time
/// the delay of a wake-up by the system does not matter.
constexpr auto kQuick = std::chrono::microseconds(100);
constexpr auto kImpatient = std::chrono::microseconds(2);
constexpr int kPauses = 16;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void StepCounter::complete(int64_t steps, bool wake) {
  // Sequentially consistent, because the check for a sleeping thread and for the steps that it
  // waits for must come after this.
  const uint64_t more =
      static_cast<uint64_t>(steps) - (state_.load(std::memory_order_relaxed) >> 1);
  state_.fetch_add(more << 1);  // an addition, so that a concurrent close is not undone
  if (wake || awaited_.load() <= steps) state_.notify_all();
}

void StepCounter::close() {
  state_.fetch_or(1);
  state_.notify_all();
}

bool StepCounter::wait(int64_t steps, SpinPolicy& spin_policy, int64_t more) {
  const uint64_t wanted = static_cast<uint64_t>(steps) << 1;
  uint64_t seen = state_.load(std::memory_order_acquire);
  const auto settled = [&] { return seen >= wanted || (seen & 1) != 0; };
  if (settled()) return seen >= wanted;

  const auto begin = Clock::now();
  const auto limit = begin + (spin_policy.quick_ ? kQuick : kImpatient);
  while (!settled() && Clock::now() < limit) {
    for (int i = 0; i < kPauses && !settled(); ++i) {
      pause();
      seen = state_.load(std::memory_order_acquire);
    }
    // If there are more threads than cores, the peer may be waiting for this core.
    if (!settled()) std::this_thread::yield();
  }
  awaited_.store(steps + more);
  seen = state_.load();
  while (!settled()) {
    state_.wait(seen);
    seen = state_.load(std::memory_order_acquire);
  }
  awaited_.store(0);
  spin_policy.quick_ = Clock::now() - begin < kQuick;
  return seen >= wanted;
}

ThreadPool::ThreadPool(size_t threads) {
  try {
    for (size_t i = 0; i < threads; ++i) {
      Member& member = members_.emplace_back();
      member.thread = std::thread([&member] { work(member); });
    }
  } catch (const std::system_error& error) {
    dismiss();
    throw RunError(fmt::format("cannot create a thread: {}", error.what()));
  }
}

ThreadPool::~ThreadPool() { dismiss(); }

void ThreadPool::dismiss() {
  for (Member& member : members_) member.given.close();
  for (Member& member : members_)
    if (member.thread.joinable()) member.thread.join();
}

void ThreadPool::work(Member& member) {
  SpinPolicy spin_policy;
  for (int64_t bodies = 1; member.given.wait(bodies, spin_policy); ++bodies) {
    member.body();
    member.done.complete(bodies);
  }
}

void ThreadPool::run(std::vector<std::function<void()>> bodies) {
  FLOW_CHECK(bodies.size() <= members_.size(), "{} bodies", bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    members_[i].body = std::move(bodies[i]);
    members_[i].given.complete(members_[i].given.completed() + 1);
  }
  for (size_t i = 0; i < bodies.size(); ++i)
    members_[i].done.wait(members_[i].given.completed(), members_[i].for_done);
}

}  // namespace flow::exec
