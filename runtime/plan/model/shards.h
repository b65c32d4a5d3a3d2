// Jobs whose batch is cut into shards: how often steps run, and shapes of the whole batch.
#pragma once

#include <cstdint>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// 1 where the batch is not cut.
int64_t shards_of(const Job& job);

/// How often a call runs a step: once for each shard, or once.
int64_t runs_of(const Job& job, StepId step);

/// A tensor's shape for the whole batch.
Shape whole_shape(const Job& job, const Tensor& tensor);

/// The job as the executor, inputs and deliveries see it: for the whole batch, without shards. Only
/// backends run the job itself.
Job whole_job(const Job& job);

}  // namespace flow::plan
