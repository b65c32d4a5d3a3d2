// What a rank that does not lead does: it prepares the job that rank 0 describes, and runs steps as
// rank 0 says. It writes nothing. With several devices in one process, such ranks are threads.
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

/// Several devices in one process: rank 0 is the thread that leads, and each other rank a thread
/// that follows it.
class FollowerThreads {
 public:
  /// The backend of a rank, made on its thread.
  using MakeBackendOf =
      std::function<std::unique_ptr<Backend>(int rank, const plan::Plan&, const plan::Job&)>;

  /// `names`: of each rank, for messages: "GPU 2". RunError where the system gives no thread.
  FollowerThreads(std::vector<std::string> names, MakeBackendOf make_backend,
                  FollowOptions options);
  /// Without `end`, the leader has failed, and the others fail with it.
  ~FollowerThreads();
  FollowerThreads(const FollowerThreads&) = delete;
  FollowerThreads& operator=(const FollowerThreads&) = delete;

  Ranks& leader() { return *ranks_.front(); }
  /// The run is over: all threads end. What failed before is reported already.
  void end();

 private:
  void follow(Ranks& ranks);

  LocalRanks local_;
  const MakeBackendOf make_backend_;
  const FollowOptions options_;
  std::vector<std::unique_ptr<Ranks>> ranks_;
  std::vector<std::jthread> threads_;  // the last member: they end first
};

}  // namespace flow::exec
