// What ranks must have in common before the first step: devices, data, and shards for each.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/input/data_files.h"
#include "runtime/exec/input/step_index.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// What a rank runs on, and its data, as far as it has read them: lengths, and digests of the files
/// in `files`. `device`: Backend::device.
std::string describe_data(const std::string& device, const DataFiles& files,
                          const StepIndex& step_index);

/// `texts`: what describe_data made on each rank. Where they differ, RequestError on rank 0 and
/// EndedByLeader on the others.
void require_same_data(const Ranks& ranks, const std::vector<std::string>& texts);

/// RequestError where the job's shards cannot be divided among the ranks.
void require_ranks_divide(int64_t ranks, const plan::Job& job);

}  // namespace flow::exec
