// Threads that wait for what there is to do.
#include "runtime/exec/core/thread_pool.h"

#include <fmt/format.h>

#include <system_error>

#include "runtime/base/check.h"
#include "runtime/base/error.h"

namespace flow::exec {

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
