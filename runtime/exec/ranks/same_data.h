// What ranks must have in common before the first step: devices, data, and shards for each.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/core/run_request.h"
#include "runtime/exec/input/data_files.h"
#include "runtime/exec/input/step_index.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// What a rank runs on, and its data without their contents: lengths, and which files it reads.
/// `device`: Backend::device.
std::string describe_data(const std::string& device, const RunRequest& request,
                          const StepIndex& step_index);

/// `texts`: what describe_data made on each rank. All ranks call it. Ranks that read different
/// files hash them; what rank 0 has hashed is in `known`. Where something differs, RequestError on
/// rank 0 and EndedByLeader on the others.
void require_same_data(const Ranks& ranks, const RunRequest& request,
                       const std::vector<std::string>& texts, const DataFiles& known);

/// RequestError where the job's shards cannot be divided among the ranks.
void require_ranks_divide(int64_t ranks, const plan::Job& job);

}  // namespace flow::exec
