// Seconds that a thread counts.
#include "runtime/exec/ranks/time_limit.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "runtime/base/error.h"

namespace flow::exec {

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
