// What must hold of a plan before anything is allocated for it: the table of contents, the place in
// messages, and calls of ops, checked against the ops' records.
#include "runtime/plan/check/check.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ops/core/check.h"
#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::plan {

void Location::refuse(const std::string& what) const {
  std::string place = *path_ + ": ";
  if (!job_.empty()) place += fmt::format("job `{}`", job_);
  if (!kind_.empty()) place += fmt::format("{}{} `{}`", job_.empty() ? "" : ", ", kind_, name_);
  if (!job_.empty() || !kind_.empty()) place += ": ";
  throw RequestError(place + what, "recompile the job file with flowc build");
}

const ops::OpSpec& spec_of(const ops::OpRef& op, const Location& location) {
  const ops::OpSpec* spec = op.spec();
  location.require(spec && spec->infer && !spec->dropped, "unknown op `{}`", op.name());
  return *spec;
}

ops::JobTypes types_of(const Job& job) {
  ops::JobTypes types{.compute = compute_dtype_of(job.precision),
                      .low_precision = low_precision_of(job.precision),
                      .shards = shards_of(job)};
  for (const Input& input : job.inputs) {
    const Tensor& tensor = job[input.tensor];
    if (tensor.batch_axis < 0 || types.batch > 0) continue;
    types.batch = tensor.shape[tensor.batch_axis];
  }
  return types;
}

ops::Operand operand_of(const Tensor& tensor) {
  return {tensor.dtype, tensor.shape, tensor.batch_axis};
}

std::vector<ops::Result> check_call(const ops::OpSpec& spec, std::vector<ops::Operand> operands,
                                    const Attributes& attributes, const ops::JobTypes& types,
                                    const Location& location) {
  ops::Call call(std::move(operands), attributes, types);
  ops::check_types(spec, call);
  if (!call.failed()) spec.infer(call);
  if (call.failed()) location.refuse(call.refusals().front().text);
  return call.results();
}

namespace {

void check_lifetimes(const Job& job, const Location& location) {
  Job assigned = job;
  assign_lifetimes(assigned);
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    const Tensor &tensor = job.tensors[i], &right = assigned.tensors[i];
    location.at("tensor", tensor.name)
        .require(tensor.first == right.first && tensor.last == right.last,
                 "wrong lifetime: steps {} to {}, expected {} to {}", tensor.first.value,
                 tensor.last.value, right.first.value, right.last.value);
  }
}

void check_job(const Job& job, const Location& location) {
  location.require(std::ranges::find(kPrecisions, job.precision) != kPrecisions.end(),
                   "unknown precision `{}`", job.precision);
  check_ids(job, location);
  check_sharding(job, location);
  check_tensors(job, location);
  check_loop(job, location);
  check_steps(job, location);
  if (job.sharding) check_layouts(job, location);
  check_io(*UnshardedJob(job), location);
  check_lifetimes(job, location);
}

/// Does the job keep an average of any variable?
bool is_averaged(const Job& job) {
  return std::ranges::any_of(job.variables, [&](const Variable& variable) {
    return !variable.slot && has_average(job, job[variable.tensor].name);
  });
}

/// The called jobs exist, each is called once, and they can share variables.
void check_also(const Plan& plan, const Job& job, const Location& location) {
  std::vector<const Job*> together{&job};
  for (const SubJob& also : job.run.also) {
    const auto other = std::ranges::find(plan.jobs, also.job, &Job::name);
    location.require(other != plan.jobs.end(), "calls an unknown job `{}`", also.job);
    location.require(!also.averaged || (!other->train && is_averaged(job)),
                     "`{}` reads averages; expected a predict job, and a caller with averages",
                     also.job);
    location.require((also.every_steps > 0) != (also.every_epochs > 0) && also.every_steps >= 0 &&
                         also.every_epochs >= 0,
                     "invalid schedule for calling `{}`: every {} steps, every {} epochs", also.job,
                     also.every_steps, also.every_epochs);
    for (const Job* before : together) {
      location.require(before != &*other, "calls `{}` twice, or calls itself", also.job);
      const auto conflict = sharing_conflict(*before, *other);
      location.require(!conflict, "{}", conflict.value_or(""));
    }
    together.push_back(&*other);
  }
}

}  // namespace

void check(const Plan& plan, const std::string& path) {
  const Location location(path);
  location.require(plan.version == kVersion, "unsupported plan version {}; expected {}",
                   plan.version, kVersion);
  location.require(!plan.jobs.empty(), "the plan has no jobs");
  std::set<std::string_view> names;
  for (const Job& job : plan.jobs) {
    location.require(is_name(job.name), "invalid job name `{}`", job.name);
    location.require(names.insert(job.name).second, "duplicate job name `{}`", job.name);
    check_job(job, location.in_job(job.name));
  }
  for (const Job& job : plan.jobs) {
    check_also(plan, job, location.in_job(job.name));
    check_followed(plan, job, location.in_job(job.name));
  }
}

}  // namespace flow::plan
