// Starts and ends the threads of ranks.
#include "runtime/exec/run/follower_threads.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "runtime/base/error.h"

namespace flow::exec {

FollowerThreads::FollowerThreads(std::vector<std::string> names, MakeBackendOf make_backend,
                                 FollowOptions options)
    : local_(static_cast<int>(names.size())),
      make_backend_(std::move(make_backend)),
      options_(std::move(options)) {
  const std::vector<std::string> one_host(names.size());
  for (size_t rank = 0; rank < names.size(); ++rank)
    ranks_.push_back(
        std::make_unique<Ranks>(local_.rank(static_cast<int>(rank)), nullptr, one_host, names));
  try {
    for (size_t rank = 1; rank < names.size(); ++rank)
      threads_.emplace_back([this, rank] { follow(*ranks_[rank]); });
  } catch (const std::system_error& error) {
    local_.fail(std::make_exception_ptr(EndedByLeader()));
    throw RunError(
        fmt::format("cannot create a thread for {}: {}", names[threads_.size() + 1], error.what()));
  }
}

FollowerThreads::~FollowerThreads() {
  if (!threads_.empty()) local_.fail(std::make_exception_ptr(EndedByLeader()));
}

void FollowerThreads::end() {
  try {
    leader().send({.kind = Order::Kind::kEnd});
  } catch (const std::exception&) {
    // They have all ended.
  }
  threads_.clear();
}

/// What fails here is reported by rank 0, whose next operation throws it.
void FollowerThreads::follow(Ranks& ranks) {
  try {
    exec::follow(
        ranks,
        [&](const plan::Plan& plan, const plan::Job& job) {
          return make_backend_(ranks.rank(), plan, job);
        },
        options_);
  } catch (const std::exception& error) {
    ranks.fail(error);
  }
}

}  // namespace flow::exec
