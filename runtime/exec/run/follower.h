// A rank that does not lead: it prepares the job that rank 0 describes and runs steps as rank 0
// orders. It writes no files. If one process has several devices, these ranks are threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Called on rank 0: asks the other ranks to prepare the run of the request.
void announce(const RunRequest& request);

/// The options of a following rank.
struct FollowOptions {
  int threads = 0;
  std::function<int()> stop_signal;  // same as RunRequest::stop_signal
};

using MakeBackend = std::function<std::unique_ptr<Backend>(const plan::Plan&, const plan::Job&)>;

/// Prepares the run that rank 0 announces, and follows its orders until rank 0 ends the run. Prints
/// nothing. Returns the exit status that rank 0 sends.
int follow(Ranks& ranks, const MakeBackend& make_backend, const FollowOptions& options);

/// Several devices in one process: rank 0 is the leading thread, and each other rank is a thread
/// that follows it.
class FollowerThreads {
 public:
  /// Makes the backend of a rank, on the rank's thread.
  using MakeBackendOf =
      std::function<std::unique_ptr<Backend>(int rank, const plan::Plan&, const plan::Job&)>;

  /// `names` contains a name of each rank for messages: "GPU 2". Throws RunError if the system
  /// cannot create a thread.
  FollowerThreads(std::vector<std::string> names, MakeBackendOf make_backend,
                  FollowOptions options);
  /// If `end` was not called, the leader has failed, and the other ranks fail with it.
  ~FollowerThreads();
  FollowerThreads(const FollowerThreads&) = delete;
  FollowerThreads& operator=(const FollowerThreads&) = delete;

  Ranks& leader() { return *ranks_.front(); }
  /// Ends the run and all threads. Earlier errors have already been reported.
  void end();

 private:
  void follow(Ranks& ranks);

  LocalRanks local_;
  const MakeBackendOf make_backend_;
  const FollowOptions options_;
  std::vector<std::unique_ptr<Ranks>> ranks_;
  std::vector<std::jthread> threads_;  // the last member, because the threads must end first
};

}  // namespace flow::exec
