// The common part of the checks of properties.
#include "runtime/verify/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::verify {
namespace {

/// Throws if an input is a pipe, because a pipe can be read only once, and trials read their inputs
/// several times.
void require_no_pipes(const Request& request, const plan::Plan& plan) {
  const plan::Job& job = job_of(plan, request.trials.job);
  exec::RunRequest run(plan, job, request.trials.root);
  run.inputs = request.trials.inputs;
  const auto streamed = exec::streamed_inputs(run);
  if (streamed.empty()) return;
  throw RequestError(
      fmt::format("{}: input `{}` reads a pipe, which can be read only once", job.where,
                  streamed.front()),
      fmt::format("save its data to a file: --input {}=@FILE.npy", streamed.front()));
}

void require_no_loop(const Request& request, const plan::Plan& plan) {
  const plan::Job& job = job_of(plan, request.trials.job);
  if (job.loop)
    throw RequestError(fmt::format("{}: job `{}` has a loop, which flowrun verify does not support",
                                   job.where, job.name),
                       "check a job that makes one pass, without `loop`");
}

void require_at(const Request& request) {
  if (request.steps < 1) throw RequestError("--steps: expected at least 1");
  if (!request.at) return;
  if (*request.at >= 1 && *request.at < request.steps) return;
  if (request.steps == 1)
    throw RequestError("--at: one step cannot be divided", "use more steps: --steps 20");
  throw RequestError(fmt::format("--at is {}; expected 1 to {}, so that a step is left",
                                 *request.at, request.steps - 1),
                     "choose a step in the middle, or omit --at");
}

RunError error_of(const TrialEnd& end) { return RunError(end.error, end.hint, end.status); }

}  // namespace

const char* name_of(Verdict verdict) {
  static constexpr std::array kNames = {"holds", "differs", "measured", "n/a", "error"};
  return kNames[static_cast<size_t>(verdict)];
}

Bench::Bench(Request request) : request_(std::move(request)) {
  require_at(request_);
  require_no_loop(request_, request_.plan);
  require_no_pipes(request_, request_.plan);
  plan_ = bounded(request_.plan);
}

/// Lets the job call each of its sub-jobs once: after the middle, so that another step follows if
/// there are three or more steps.
plan::Plan Bench::bounded(plan::Plan plan) const {
  plan::Job& job = job_of(plan, request_.trials.job);
  const int64_t middle = request_.at.value_or(request_.steps / 2);
  for (plan::SubJob& sub_job : job.run.also) {
    sub_job.every_epochs = 0;
    sub_job.every_steps = std::max(middle, request_.steps / 2) + 1;
  }
  job.run.checkpoint.save.reset();
  job.run.checkpoint.every_steps = 0;
  job.run.checkpoint.every_epochs = 0;
  job.run.checkpoint.every_minutes.reset();
  job.run.log_every = 1;
  return plan;
}

plan::Plan Bench::compile(const Variant& variant) const {
  if (!request_.compile) throw NotApplicable(fmt::format("{} is a plan", request_.file));
  Compiled compiled = request_.compile(variant);
  if (!compiled.plan) throw NotApplicable(compiled.problem);
  return bounded(std::move(*compiled.plan));
}

/// Makes this job and the jobs that it calls use float64, so that all variables have the same
/// dtype.
plan::Plan Bench::compile_exact(Variant variant) const {
  std::vector<const plan::Job*> jobs = plan::sub_jobs_of(plan_, job());
  jobs.push_back(&job());
  const auto scaled = [](const plan::Job* one) {
    return one->train && one->precision.starts_with("mixed");
  };
  for (const plan::Job* one : jobs)
    variant.sets.push_back(fmt::format("jobs.{}.precision=float64", one->name));
  try {
    return compile(variant);
  } catch (const NotApplicable&) {
    if (std::ranges::none_of(jobs, scaled)) throw;
  }
  for (const plan::Job* one : jobs)
    if (scaled(one))
      variant.sets.push_back(fmt::format("~jobs.{}.optimizer.loss_scale", one->name));
  return compile(variant);
}

const TrialEnd& Bench::reference() {
  if (reference_) return *reference_;
  reference_ = run_whole({.folder = "reference", .plan = plan_, .steps = request_.steps});
  return *reference_;
}

int64_t Bench::at() {
  const int64_t at = request_.at.value_or(steps() / 2);
  if (at >= 1 && at < steps()) return at;
  if (request_.at)
    throw RequestError(fmt::format("the job ends after {}; --at {} leaves none",
                                   counted(static_cast<uint64_t>(steps()), "step"), *request_.at),
                       "choose an earlier step, or omit --at");
  throw NotApplicable("the job ends after one step");
}

TrialEnd Bench::run_whole(const Trial& trial) const {
  TrialEnd end = run_trial(request_.trials, trial);
  if (!end.good()) throw error_of(end);
  return end;
}

fs::path Bench::run(Trial trial) {
  trial.damage = damage_;
  trial.damaged_from = damage_ && steps() > 1 ? at() : 0;
  TrialEnd end = run_trial(request_.trials, trial);
  if (damaged_.empty()) damaged_ = end.damaged;
  const bool refused = end.status == kRequestWrong;
  if (refused && !trial.resume) throw NotApplicable(end.error);
  if (refused) throw RunError(end.error, end.hint, kCheckFailed);  // a resume must not be refused
  if (!end.good()) throw error_of(end);
  return end.directory;
}

bool compare_directory(const fs::path& first, const fs::path& second, const std::string& what,
                       Result& result, const RunRules& rules) {
  RunComparison comparison = compare_runs(first, second, rules);
  if (!result.detail.empty()) result.detail += ", ";
  if (!comparison.difference) {
    result.detail += what;
    return true;
  }
  result.verdict = Verdict::kDiffers;
  result.detail = what;
  result.difference = std::move(comparison.difference);
  return false;
}

bool compare_trial(Bench& bench, const Trial& trial, const std::string& what, Result& result,
                   const RunRules& rules) {
  const fs::path first = bench.reference().directory;
  const fs::path second = bench.run(trial);
  const bool same = compare_directory(first, second, what, result, rules);
  remove_tree(second);
  return same;
}

}  // namespace flow::verify
