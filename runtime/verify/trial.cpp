// Runs of a job for comparison.
#include "runtime/verify/trial.h"

#include <algorithm>
#include <csignal>

#include "runtime/base/error.h"
#include "runtime/exec/run/run.h"
#include "runtime/io/keeper.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/verify/child.h"

namespace flow::verify {
namespace {

exec::Misreading misreading_of(const Trial& trial) {
  if (trial.damage == DamageKind::kSeed) return {.seed = 1};
  if (trial.damage == DamageKind::kDataPosition) return {.steps = -1};
  return {};
}

exec::RunRequest request_of(const TrialOptions& options, const Trial& trial, const plan::Job& job) {
  exec::RunRequest request{.plan = trial.plan,
                           .job = job,
                           .root = options.root,
                           .directory = options.directory / trial.folder,
                           .inputs = options.inputs,
                           .save = "none",
                           .steps = trial.steps,
                           .resume = trial.resume,
                           .threads = trial.threads,
                           .eager = trial.eager,
                           .commands = options.commands,
                           .misread = misreading_of(trial)};
  if (trial.resume) return request;  // it loads its own checkpoint
  request.load = options.load;
  request.load_partial = options.load_partial;
  return request;
}

/// In the child. Returns what is known of the run beside its error.
std::string run_here(const TrialOptions& options, const Trial& trial) {
  const plan::Job& job = job_of(trial.plan, options.job);
  exec::RunRequest request = request_of(options, trial, job);
  make_folders(request.directory);
  std::optional<io::Keeper> keeper;
  if (options.commands && !plan::commands_of(trial.plan, job).empty()) keeper.emplace();
  request.keeper = keeper ? &*keeper : nullptr;
  request.out = stdout;  // which leads nowhere here
  request.progress = [&](const exec::Progress& at) {
    if (trial.killed_at && at.step >= *trial.killed_at) std::raise(SIGKILL);
  };
  std::string done;
  const Damage damage{trial.damage.value_or(DamageKind::kBit), options.job, trial.damaged_from,
                      options.root};
  auto backend = options.open(trial.plan, job);
  if (trial.damage) backend = damaged(std::move(backend), damage, done);
  const exec::RunOutcome outcome = exec::run(*backend, request);
  if (outcome.exit_status != kDone)
    throw RunError(outcome.error, outcome.hint, outcome.exit_status);
  return OrderedJson{{"steps", outcome.steps}, {"damaged", done}}.dump();
}

}  // namespace

TrialEnd run_trial(const TrialOptions& options, const Trial& trial) {
  const ChildEnd end = run_in_child([&] { return run_here(options, trial); }, options.stopping);
  TrialEnd result{end.status, end.error, end.hint, options.directory / trial.folder};
  if (trial.killed_at && end.killed) {
    result.status = kDone;
    result.killed = true;
  }
  if (const Json report = Json::parse(end.result, nullptr, false); report.is_object()) {
    result.steps = report.at("steps");
    result.damaged = report.at("damaged");
  }
  return result;
}

std::string on_device(const TrialOptions& options, const plan::Plan& plan,
                      const std::function<std::string(exec::Backend&, const plan::Job&)>& work) {
  const auto here = [&] {
    const plan::Job& job = job_of(plan, options.job);
    const auto backend = options.open(plan, job);
    return work(*backend, job);
  };
  ChildEnd end = run_in_child(here, options.stopping);
  if (end.status != kDone) throw RunError(end.error, end.hint, end.status);
  return std::move(end.result);
}

const plan::Job& job_of(const plan::Plan& plan, const std::string& name) {
  const auto job = std::ranges::find(plan.jobs, name, &plan::Job::name);
  FLOW_CHECK(job != plan.jobs.end());
  return *job;
}

plan::Job& job_of(plan::Plan& plan, const std::string& name) {
  return const_cast<plan::Job&>(job_of(std::as_const(plan), name));
}

}  // namespace flow::verify
