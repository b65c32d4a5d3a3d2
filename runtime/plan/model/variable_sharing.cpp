// Checks that the jobs of one run agree about their variables and devices.
#include "runtime/plan/model/variable_sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "runtime/base/error.h"

namespace flow::plan {
namespace {

/// Returns the variable that an optimizer's slot belongs to: "w" for "w/momentum".
std::string_view owner_of(std::string_view slot) { return slot.substr(0, slot.rfind('/')); }

std::optional<std::string> conflict_of(const Job& a, const Variable& in_a, const Job& b,
                                       const Variable& in_b) {
  const Tensor &of_a = a[in_a.tensor], &of_b = b[in_b.tensor];
  if (a.device_of(of_a) != b.device_of(of_b))
    return fmt::format("the variable `{}` is on the {} in `{}`, but on the {} in `{}`", of_a.name,
                       name_of(a.device_of(of_a)), a.name, name_of(b.device_of(of_b)), b.name);
  if (of_a.dtype == of_b.dtype && of_a.shape == of_b.shape && in_a.slot == in_b.slot) return {};
  return fmt::format("the variable `{}` is {} {} in `{}`, but {} {} in `{}`", of_a.name,
                     name_of(of_a.dtype), of_a.shape.str(), a.name, name_of(of_b.dtype),
                     of_b.shape.str(), b.name);
}

}  // namespace

bool has_average(const Job& job, const std::string& variable) {
  const std::string average = average_of(variable);
  return std::ranges::any_of(job.variables, [&](const Variable& one) {
    return one.slot && job[one.tensor].name == average;
  });
}

std::optional<std::string> sharing_conflict(const Job& a, const Job& b) {
  if (a.device != b.device && !has_two_devices(a) && !has_two_devices(b))
    return fmt::format("`{}` and `{}` run on different devices", a.name, b.name);
  std::map<std::string_view, const Variable*> by_name, slot_of;
  for (const Variable& variable : a.variables) {
    const std::string_view name = a[variable.tensor].name;
    by_name.emplace(name, &variable);
    if (variable.slot) slot_of.emplace(owner_of(name), &variable);
  }
  for (const Variable& variable : b.variables) {
    const std::string_view name = b[variable.tensor].name;
    if (variable.slot && slot_of.contains(owner_of(name)))
      return fmt::format("both `{}` and `{}` train `{}`, with optimizer slots", a.name, b.name,
                         owner_of(name));
    const auto found = by_name.find(name);
    if (found == by_name.end()) continue;
    if (auto conflict = conflict_of(a, *found->second, b, variable)) return conflict;
  }
  return {};
}

std::vector<const Job*> sub_jobs_of(const Plan& plan, const Job& job) {
  std::vector<const Job*> jobs;
  for (const SubJob& also : job.run.also) {
    const auto found = std::ranges::find(plan.jobs, also.job, &Job::name);
    FLOW_CHECK(found != plan.jobs.end(), "job {}", also.job);
    jobs.push_back(&*found);
  }
  return jobs;
}

std::vector<PlacedCommand> commands_of(const Plan& plan, const Job& job) {
  std::vector<const Job*> jobs = sub_jobs_of(plan, job);
  jobs.insert(jobs.begin(), &job);
  std::vector<PlacedCommand> commands;
  const auto add = [&](const std::vector<Sink>& sinks, const std::string& where) {
    for (const Sink& sink : sinks)
      if (const auto* command = std::get_if<CommandSink>(&sink))
        commands.push_back({*command, where});
  };
  for (const Job* one : jobs) {
    for (const Hook& hook : one->hooks) add(hook.sinks, hook.where);
    if (one->returns) add(one->returns->sinks, one->returns->where);
  }
  return commands;
}

bool needs_two_devices(const Plan& plan, const Job& job) {
  return has_two_devices(job) || std::ranges::any_of(sub_jobs_of(plan, job), [&](const Job* other) {
           return has_two_devices(*other) || other->device != job.device;
         });
}

}  // namespace flow::plan
