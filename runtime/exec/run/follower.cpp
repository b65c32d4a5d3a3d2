// The ranks that do not lead: from the description of a run to its end, and their threads.
#include "runtime/exec/run/follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {
namespace {

/// The run that rank 0 prepares.
struct DescribedRun {
  plan::Plan plan;
  std::string job;
  fs::path root;
  std::vector<std::pair<std::string, std::string>> inputs;
  std::optional<int64_t> steps;
  bool profile = false;
  std::optional<FingerprintOptions> fingerprints = {};
  std::vector<std::string> streamed;  // inputs of the job that only rank 0 reads
};

std::string describe(const RunRequest& request) {
  Json text{{"plan", plan::to_json(request.plan)}, {"job", request.job.name},
            {"root", request.root.string()},       {"inputs", request.inputs},
            {"profile", request.profile},          {"streamed", streamed_inputs(request)}};
  if (request.steps) text["steps"] = *request.steps;
  if (request.fingerprints)
    text["fingerprints"] = {request.fingerprints->every, request.fingerprints->bytes};
  return text.dump();
}

DescribedRun described(const std::string& text) {
  const Json said = Json::parse(text);
  DescribedRun run{plan::from_json(said["plan"].get<std::string>(), "the plan of rank 0"),
                   said["job"].get<std::string>(),
                   said["root"].get<std::string>(),
                   said["inputs"].get<std::vector<std::pair<std::string, std::string>>>(),
                   {},
                   said["profile"].get<bool>(),
                   {},
                   said["streamed"].get<std::vector<std::string>>()};
  if (said.contains("steps")) run.steps = said["steps"].get<int64_t>();
  if (said.contains("fingerprints"))
    run.fingerprints = FingerprintOptions{said["fingerprints"][0].get<int64_t>(),
                                          said["fingerprints"][1].get<uint64_t>()};
  return run;
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
  /// All deliveries count for what a call computes, but none of them is made here.
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
      if (ranks_.failed()) throw;  // else it is the same on all ranks, and rank 0 reports it
    }
  }

  /// Steps of the job that is not called by another one.
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
  const int64_t fingerprint_every_;  // of the job itself; 0: none
  Deliverer nothing_;                // for all jobs: it has no outputs
  ThreadPool pool_;
};

/// An error of this rank before it prepares anything; rank 0 reports it.
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
  const DescribedRun run = join_failure(ranks, [&] { return described(text); });
  const plan::Job& job = *std::ranges::find(run.plan.jobs, run.job, &plan::Job::name);
  const auto backend = join_failure(ranks, [&] { return make_backend(run.plan, job); });
  const RunRequest request{.plan = run.plan,
                           .job = job,
                           .root = run.root,
                           .inputs = run.inputs,
                           .steps = run.steps,
                           .threads = options.threads,
                           .profile = run.profile,
                           .stop_signal = options.stop_signal,
                           .ranks = &ranks,
                           .streamed = run.streamed,
                           .fingerprints = run.fingerprints};
  PreparedRun prepared = prepare_run(*backend, request);
  const int64_t every = run.fingerprints ? run.fingerprints->every : 0;
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
