// Jobs whose batch is cut into shards: how often steps run, and shapes of the whole batch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// 1 where the batch is not cut.
int64_t shards_of(const Job& job);

/// How often a call runs a step: once for each shard, or once.
int64_t runs_of(const Job& job, StepId step);

/// A tensor's shape for the whole batch.
Shape whole_shape(const Job& job, const Tensor& tensor);

/// By tensor: does each shard have a value of its own, which nothing joins or combines?
std::vector<bool> own_of_shards(const Job& job);

/// The job for the whole batch, without shards.
Job whole_job(const Job& job);

/// The job as the executor, inputs and deliveries see it: for the whole batch. Only backends run
/// the job itself. Borrows a job whose batch is not cut.
class WholeJob {
 public:
  explicit WholeJob(const Job& job)
      : job_(job), made_(job.sharding ? std::make_unique<const Job>(whole_job(job)) : nullptr) {}

  const Job& operator*() const { return made_ ? *made_ : job_; }

 private:
  const Job& job_;
  std::unique_ptr<const Job> made_;
};

}  // namespace flow::plan
