// The loop of a predict job. The check of its steps says what they do to its states.
#include <set>

#include "runtime/plan/check/check_job.h"

namespace flow::plan {

void check_loop(const Job& job, const Location& location) {
  if (!job.loop) return;
  const Loop& loop = *job.loop;
  location.require(!job.train && !job.sharding && job.devices == 1 && !has_two_devices(job),
                   "a loop requires a predict job on one device, without shards");
  location.require(loop.passes >= 1 && loop.passes <= kMaxPasses,
                   "{} passes of a loop; expected 1 to {}", loop.passes, kMaxPasses);
  std::set<TensorId> seen;
  for (const TensorId id : loop.states)
    location.at("state", job[id].name)
        .require(job[id].role == Role::kVariable && seen.insert(id).second,
                 "is not a variable, or is listed twice");
  if (!loop.until.valid()) return;
  const Tensor& until = job[loop.until];
  location.at("loop", until.name)
      .require(until.dtype == DType::kBool && until.role == Role::kResult,
               "ends the loop; expected a bool result");
}

}  // namespace flow::plan
