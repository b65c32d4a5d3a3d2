// Jobs that run together on one set of variables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Why two jobs cannot share variables by name in one run; nothing where they can: what both have
/// is of one shape and dtype and lies on one device, two jobs of one device each run on the same,
/// and no variable is trained by both with optimizer slots.
std::optional<std::string> sharing_conflict(const Job& a, const Job& b);

/// The jobs that `job` calls, in the order of its `also`. REQUIRES: the plan is checked.
std::vector<const Job*> sub_jobs_of(const Plan& plan, const Job& job);

/// A command sink, and the hook or return that it belongs to.
struct PlacedCommand {
  const CommandSink& sink;
  const std::string& where;
};

/// The commands of a job and of those that it calls. REQUIRES: the plan is checked.
std::vector<PlacedCommand> commands_of(const Plan& plan, const Job& job);

/// Does a run of the job, or of what it calls, compute on two devices? REQUIRES: the plan is
/// checked.
bool needs_two_devices(const Plan& plan, const Job& job);

}  // namespace flow::plan
