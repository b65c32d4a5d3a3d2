// `placement:` of a job, an entry or a network call: what computes it.
#pragma once

#include "compiler/ir/target.h"
#include "compiler/job/read/job.h"

namespace flow::job {

/// The device that a placement means for a target: `auto` is what that has.
plan::DeviceKind device_of(const Placement& placement, const Target& target);

/// Chooses the devices that the job runs on. Reports devices that the target does not have.
void place(Reader& reader, const Job& job, const Target& target, plan::Job& made);

/// Reports an entry's placement that names other devices than those of its job.
void check_entry_placement(Reader& reader, const Entry& entry, const Job& job,
                           const Target& target);

}  // namespace flow::job
