// Functions for jobs that run together on one set of variables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Returns why two jobs cannot share variables by name in one run, or nothing if they can. They can
/// if all common variables have the same shape, dtype and device, if two jobs that use one device
/// each use the same one, and if no variable is trained by both jobs with optimizer slots.
std::optional<std::string> sharing_conflict(const Job& a, const Job& b);

/// Returns the jobs that `job` calls, in the order of its `also`. REQUIRES: the plan has been
/// checked.
std::vector<const Job*> sub_jobs_of(const Plan& plan, const Job& job);

/// A command sink, with the place of the hook or return that it belongs to.
struct PlacedCommand {
  const CommandSink& sink;
  const std::string& where;
};

/// Returns the commands of a job and of the jobs that it calls. REQUIRES: the plan has been
/// checked.
std::vector<PlacedCommand> commands_of(const Plan& plan, const Job& job);

/// Returns true if a run of the job, including the jobs that it calls, computes on two devices.
/// REQUIRES: the plan has been checked.
bool needs_two_devices(const Plan& plan, const Job& job);

}  // namespace flow::plan
