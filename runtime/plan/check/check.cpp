// What must hold of a plan before anything is allocated for it: the table of contents.
#include "runtime/plan/check/check.h"

#include <algorithm>
#include <set>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/plan/check/check_job.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::plan {
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
  check_io(*WholeJob(job), location);
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
