// The monitor's thread, and what the run says to it. Seconds that a thread counts.
#include "runtime/exec/ranks/monitor.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/exec/ranks/failure_detector.h"

namespace flow::exec {

struct Monitor::Implementation {
  Implementation(Collectives& shared, Options given)
      : collectives(shared),
        options(std::move(given)),
        rank(shared.rank()),
        detector(shared, options) {}

  RankStatus own_status() const {
    RankStatus own = status;
    if (collectives.waiting > 0) own.activity = RankActivity::kWaiting;
    own.median_step = durations.median();
    return own;
  }

  void watch() {
    auto last = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    while (!ended) {
      changed.wait_for(lock, options.period, [this] { return stops || failure; });
      if (stops) return close();
      const auto failed = std::exchange(failure, std::nullopt);
      status.fails |= failed && rank == 0 && !detector.ends();
      const RankStatus own = own_status();
      lock.unlock();
      if (failed && rank != 0) detector.fail(own, failed->message, failed->hint);
      const auto now = std::chrono::steady_clock::now();
      const auto end = detector.turn(own, now - std::exchange(last, now));
      if (end) options.end(end->message, end->hint);
      lock.lock();
      ended = end.has_value();
      changed.notify_all();
    }
  }

  /// Where the library fails, another rank has ended: rank 0 says so, if it is there.
  void watch_or_end() {
    try {
      watch();
    } catch (const RunError& error) {
      options.end(rank == 0 ? error.what() : "", error.hint());
    }
  }

  /// What is posted at the end moves while others are listened to.
  void close() {
    if (!status.fails) return;
    detector.end_others();
    std::this_thread::sleep_for(options.period);
    detector.turn(status, {});
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stops = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  const Collectives& collectives;
  const Options options;
  const int rank;
  FailureDetector detector;  // of the thread
  std::mutex mutex;          // of all that follows
  std::condition_variable changed;
  RankStatus status;
  StepDurations durations;
  std::optional<RankFailure> failure;  // of this rank, that the thread has not seen
  bool stops = false, ended = false;
  std::thread thread;
};

Monitor::Monitor(Collectives& collectives, Options options)
    : implementation_(std::make_unique<Implementation>(collectives, std::move(options))) {
  try {
    implementation_->thread = std::thread([own = implementation_.get()] { own->watch_or_end(); });
  } catch (const std::system_error& error) {
    throw RunError(fmt::format("cannot create a thread: {}", error.what()));
  }
}

Monitor::~Monitor() { implementation_->stop(); }

void Monitor::enter(RankActivity activity, int64_t step) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->status.activity = activity;
  implementation_->status.step = step;
}

void Monitor::step_took(std::chrono::nanoseconds duration) {
  const std::lock_guard lock(implementation_->mutex);
  implementation_->durations.add(duration);
}

void Monitor::fail(const std::string& message, const std::string& hint) {
  std::unique_lock lock(implementation_->mutex);
  implementation_->failure = RankFailure{implementation_->rank, message, hint};
  implementation_->changed.notify_all();
  implementation_->changed.wait(
      lock, [this] { return implementation_->ended || implementation_->status.fails; });
}

void Monitor::leave() {
  implementation_->stop();
  implementation_->status.leaves = true;
  implementation_->detector.send_heartbeat(implementation_->status);
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
