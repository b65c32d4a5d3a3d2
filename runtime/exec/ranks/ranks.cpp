// Sends the orders of rank 0, combines the errors of all ranks, and makes the common decision
// before each call.
#include "runtime/exec/ranks/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/plan/json/json.h"

namespace flow::exec {
namespace {

Json describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RunError& failed) {
    return {{"error", failed.what()}, {"hint", failed.hint()}, {"exit", failed.exit_status()}};
  } catch (const std::exception& failed) {
    return {{"error", failed.what()}, {"hint", ""}, {"exit", exit_status_of(failed)}};
  }
}

/// The error of another rank, whose message contains its place.
class FailedElsewhere : public RunError {
 public:
  using RunError::RunError;
  RunError at(std::string_view) const override { return *this; }
};

constexpr uint8_t kLaunches = 0, kSaves = 1, kStops = 2, kNotReady = 255;

/// Returns the decision as a number. The largest number of all ranks wins.
uint8_t number_of(const NextCall& call) {
  if (call.launches) return call.saves ? kSaves : kLaunches;
  if (call.stop == Stop::kNone) return kNotReady;
  return static_cast<uint8_t>(kStops + static_cast<uint8_t>(call.stop));
}

}  // namespace

Ranks::Ranks(Collectives& collectives, Monitor* monitor, std::vector<std::string> hosts,
             std::vector<std::string> names)
    : collectives_(collectives),
      monitor_(monitor),
      hosts_(std::move(hosts)),
      names_(std::move(names)) {}

bool Ranks::is_first_of_host() const {
  const auto own = hosts_.begin() + rank();
  return std::find(hosts_.begin(), own, *own) == own;
}

std::string Ranks::name_of(int rank) const {
  if (!names_.empty()) return names_[static_cast<size_t>(rank)];
  return fmt::format("rank {} ({})", rank, hosts_[static_cast<size_t>(rank)]);
}

void Ranks::enter(RankActivity activity, int64_t step) const {
  if (monitor_) monitor_->enter(activity, step);
}

void Ranks::step_took(std::chrono::nanoseconds duration) const {
  if (monitor_) monitor_->step_took(duration);
}

void Ranks::fail(const std::exception& error) {
  if (std::exchange(failed_, true)) return;
  const auto* failed = dynamic_cast<const RunError*>(&error);
  const std::string hint = failed ? failed->hint() : "";
  if (monitor_) monitor_->fail(error.what(), hint);
  const std::string name = leads() ? "" : name_of(rank()) + ": ";
  collectives_.fail(
      std::make_exception_ptr(FailedElsewhere(name + error.what(), hint, exit_status_of(error))));
}

void Ranks::send(const Order& order) const {
  Order copy = order;
  broadcast(collectives_, 0, std::as_writable_bytes(std::span(&copy, 1)));
}

Order Ranks::receive() const {
  Order order;
  broadcast(collectives_, 0, std::as_writable_bytes(std::span(&order, 1)));
  return order;
}

std::vector<std::string> Ranks::join(const std::exception_ptr& error,
                                     const std::string& mine) const {
  const Json said = error ? describe(error) : Json{{"said", mine}};
  std::vector<std::string> texts;
  int rank = 0;
  for (const std::string& text :
       gather_texts(collectives_, said.dump(-1, ' ', false, Json::error_handler_t::replace))) {
    const Json from = Json::parse(text);
    if (from.contains("error")) {
      if (!leads()) throw EndedByLeader();
      if (rank == 0) std::rethrow_exception(error);
      throw RunError(fmt::format("{}: {}", name_of(rank), from["error"].get<std::string>()),
                     from["hint"].get<std::string>(), from["exit"].get<int>());
    }
    texts.push_back(from["said"].get<std::string>());
    ++rank;
  }
  return texts;
}

NextCall agree_on_call(Collectives& ranks, const NextCall& mine) {
  const uint8_t all = agree(ranks, number_of(mine));
  if (all < kStops) return {.saves = all == kSaves};
  return {.launches = false,
          .stop = all == kNotReady ? Stop::kNone : static_cast<Stop>(all - kStops)};
}

}  // namespace flow::exec
