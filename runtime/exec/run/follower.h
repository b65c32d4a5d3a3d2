// What a rank that does not lead does: it prepares the job that rank 0 describes, and runs steps as
// rank 0 says. It writes nothing.
#pragma once

#include <functional>
#include <memory>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Rank 0 asks the others to prepare the run of the request.
void announce(const RunRequest& request);

/// What each rank follows with.
struct FollowOptions {
  int threads = 0;
  std::function<int()> stop_signal;  // as RunRequest::stop_signal
};

using MakeBackend = std::function<std::unique_ptr<Backend>(const plan::Plan&, const plan::Job&)>;

/// Prepares the run that rank 0 announces, and obeys until rank 0 ends it. Returns the exit status
/// that rank 0 says; nothing is printed.
int follow(Ranks& ranks, const MakeBackend& make_backend, const FollowOptions& options);

}  // namespace flow::exec
