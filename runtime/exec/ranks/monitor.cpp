// The monitor's thread and the functions with which the run reports to it. Also a time limit on a
// thread.
#include "runtime/exec/ranks/monitor.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "runtime/base/error.h"

namespace flow::exec {

RankStatus Monitor::own_status() const {
  RankStatus own = status_;
  if (collectives_.waiting > 0) own.activity = RankActivity::kWaiting;
  own.median_step = durations_.median();
  return own;
}

void Monitor::watch() {
  auto last = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_) {
    changed_.wait_for(lock, options_.period, [this] { return stops_ || failure_; });
    if (stops_) return close();
    const auto failed = std::exchange(failure_, std::nullopt);
    status_.fails |= failed && rank_ == 0 && !detector_.ends();
    const RankStatus own = own_status();
    lock.unlock();
    if (failed && rank_ != 0) detector_.fail(own, failed->message, failed->hint);
    const auto now = std::chrono::steady_clock::now();
    const auto end = detector_.turn(own, now - std::exchange(last, now));
    if (end) options_.end(end->message, end->hint);
    lock.lock();
    ended_ = end.has_value();
    changed_.notify_all();
  }
}

/// Watches until the end. If the library fails, another rank has ended: rank 0 reports it if it is
/// still there.
void Monitor::watch_or_end() {
  try {
    watch();
  } catch (const RunError& error) {
    options_.end(rank_ == 0 ? error.what() : "", error.hint());
  }
}

/// Ends the other ranks. The announcement is sent while this rank polls for messages.
void Monitor::close() {
  if (!status_.fails) return;
  detector_.end_others();
  std::this_thread::sleep_for(options_.period);
  detector_.turn(status_, {});
}

void Monitor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Monitor::Monitor(Collectives& collectives, MonitorOptions options)
    : collectives_(collectives),
      options_(std::move(options)),
      rank_(collectives.rank()),
      detector_(collectives, options_) {
  try {
    thread_ = std::thread([this] { watch_or_end(); });
  } catch (const std::system_error& error) {
    throw RunError(fmt::format("cannot create a thread: {}", error.what()));
  }
}

Monitor::~Monitor() { stop(); }

void Monitor::enter(RankActivity activity, int64_t step) {
  const std::lock_guard lock(mutex_);
  status_.activity = activity;
  status_.step = step;
}

void Monitor::step_took(std::chrono::nanoseconds duration) {
  const std::lock_guard lock(mutex_);
  durations_.add(duration);
}

void Monitor::fail(const std::string& message, const std::string& hint) {
  std::unique_lock lock(mutex_);
  failure_ = RankFailure{rank_, message, hint};
  changed_.notify_all();
  changed_.wait(lock, [this] { return ended_ || status_.fails; });
}

void Monitor::leave() {
  stop();
  status_.leaves = true;
  detector_.send_heartbeat(status_);
}

TimeLimit::TimeLimit(std::chrono::seconds limit, std::function<void()> expired)
    : expired_(std::move(expired)) {
  try {
    thread_ = std::jthread([this, limit](const std::stop_token& stop) { watch(stop, limit); });
  } catch (const std::system_error& error) {
    throw RunError(fmt::format("cannot create a thread: {}", error.what()));
  }
}

void TimeLimit::watch(const std::stop_token& stop, std::chrono::seconds limit) const {
  constexpr std::chrono::seconds kTurn(1);
  std::unique_lock lock(mutex_);
  for (std::chrono::seconds waited(0); waited < limit && !stop.stop_requested(); waited += kTurn)
    changed_.wait_for(lock, stop, kTurn, [] { return false; });
  if (!stop.stop_requested()) expired_();
}

}  // namespace flow::exec
