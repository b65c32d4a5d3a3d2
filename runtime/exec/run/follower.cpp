// Runs the ranks that do not lead, from the description of a run to its end. Also contains their
// threads.
#include "runtime/exec/run/follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {
namespace {

/// Returns the description of the run that rank 0 prepares, for the other ranks.
std::string describe(const RunRequest& request) {
  Json text{{"plan", plan::to_json(request.plan)}, {"job", request.job.name},
            {"root", request.root.string()},       {"inputs", request.inputs},
            {"profile", request.profile},          {"streamed", streamed_inputs(request)}};
  if (request.steps) text["steps"] = *request.steps;
  if (request.fingerprints)
    text["fingerprints"] = {request.fingerprints->every, request.fingerprints->bytes};
  return text.dump();
}

class Follower {
 public:
  Follower(PreparedRun& prepared, Ranks& ranks, const FollowOptions& options,
           int64_t fingerprint_every)
      : prepared_(prepared),
        ranks_(ranks),
        options_(options),
        fingerprint_every_(fingerprint_every),
        nothing_(*prepared.whole, prepared.input_pipeline->step_index(), {}, {}),
        pool_(kThreads) {}

  int obey() {
    for (;;) {
      const Order order = ranks_.receive();
      if (order.kind == Order::Kind::kEnd) return static_cast<int>(order.exit_status);
      if (order.kind == Order::Kind::kTakeVariables)
        share_variables(ranks_, prepared_);
      else if (order.kind == Order::Kind::kCapture)
        prepared_.capture();
      else if (order.kind == Order::Kind::kExecute)
        execute_steps(order);
    }
  }

 private:
  /// Runs the steps of an order. All deliveries affect what a call computes, but this rank delivers
  /// nothing.
  void execute_steps(const Order& order) {
    Execution execution =
        order.job == 0 ? of_run() : prepared_.called.numbered(order.job).execution(nothing_, pool_);
    execution.first = order.first;
    execution.end = order.end;
    execution.learning_rate = order.learning_rate;
    execution.ranks = &ranks_;
    try {
      execute_on_ranks(execution, order.job);
    } catch (const std::exception&) {
      if (ranks_.failed()) throw;  // otherwise all ranks have the same error, and rank 0 reports it
    }
  }

  /// Returns the execution of the main job, which no other job calls.
  Execution of_run() {
    return {.prepared = prepared_,
            .deliverer = nothing_,
            .pool = pool_,
            .capture = [this] { prepared_.capture(); },
            .stop = [this] { return stop_for(options_.stop_signal); },
            .keep_fingerprints = [](int64_t, std::span<const Fingerprint>) {},
            .fingerprint_every = fingerprint_every_};
  }

  PreparedRun& prepared_;
  Ranks& ranks_;
  const FollowOptions& options_;
  const int64_t fingerprint_every_;  // interval for the job itself; 0: none
  Deliverer nothing_;                // has no outputs; used for all jobs
  ThreadPool pool_;
};

/// Calls f, which may fail before this rank prepares anything. Sends an error to rank 0, which
/// reports it.
template <typename F>
auto join_failure(const Ranks& ranks, F f) {
  try {
    return f();
  } catch (const std::exception&) {
    ranks.join(std::current_exception(), {});
    throw;
  }
}

int follow_described(Ranks& ranks, const MakeBackend& make_backend, const FollowOptions& options) {
  const std::string text = broadcast_text(ranks.collectives(), 0, {});
  const Json said = Json::parse(text);
  const plan::Plan plan = join_failure(ranks, [&] {
    return plan::from_json(said["plan"].get<std::string>(), "the plan of rank 0");
  });
  const plan::Job& job =
      *std::ranges::find(plan.jobs, said["job"].get<std::string>(), &plan::Job::name);
  const auto backend = join_failure(ranks, [&] { return make_backend(plan, job); });
  RunRequest request(plan, job, said["root"].get<std::string>());
  request.inputs = said["inputs"].get<decltype(RunRequest::inputs)>();
  request.stop_signal = options.stop_signal;
  request.ranks = &ranks;
  request.streamed = said["streamed"].get<std::vector<std::string>>();
  request.threads = options.threads;
  request.profile = said["profile"].get<bool>();
  if (said.contains("steps")) request.steps = said["steps"].get<int64_t>();
  if (said.contains("fingerprints"))
    request.fingerprints = FingerprintOptions{said["fingerprints"][0].get<int64_t>(),
                                              said["fingerprints"][1].get<uint64_t>()};
  PreparedRun prepared = prepare_run(*backend, request);
  const int64_t every = request.fingerprints ? request.fingerprints->every : 0;
  return Follower(prepared, ranks, options, every).obey();
}

}  // namespace

void announce(const RunRequest& request) {
  request.ranks->send({.kind = Order::Kind::kPrepare});
  broadcast_text(request.ranks->collectives(), 0, describe(request));
}

int follow(Ranks& ranks, const MakeBackend& make_backend, const FollowOptions& options) {
  const Order order = ranks.receive();
  if (order.kind == Order::Kind::kEnd) return static_cast<int>(order.exit_status);
  FLOW_CHECK(order.kind == Order::Kind::kPrepare, "order {}", static_cast<int>(order.kind));
  try {
    return follow_described(ranks, make_backend, options);
  } catch (const EndedByLeader&) {
    return static_cast<int>(ranks.receive().exit_status);
  }
}

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
    // The ranks have all ended.
  }
  threads_.clear();
}

/// Follows until the run ends. If it fails, rank 0 reports the error, because its next operation
/// throws it.
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
