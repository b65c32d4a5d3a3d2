// What passes change in a job's tensors and in the list of its steps.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Adds a tensor that a step makes, with memory of its own.
inline plan::TensorId add_result(plan::Job& job, plan::Tensor tensor) {
  tensor.role = plan::Role::kResult;
  tensor.alias = plan::TensorId();
  tensor.combine.reset();
  job.tensors.push_back(std::move(tensor));
  return plan::TensorId{job.tensors.size() - 1};
}

/// Steps that go, and probes that come behind others. Steps keep their numbers until it is applied.
class StepEdits {
 public:
  explicit StepEdits(size_t steps) : gone_(steps), probes_(steps) {}

  bool is_gone(size_t step) const { return gone_[step]; }
  void remove(size_t step) { gone_[step] = true; }
  /// Adds a step that makes, in calls that deliver it, what `step`, which stands at `at`, makes
  /// now.
  const plan::Step& add_probe(size_t at, plan::Step step) {
    step.name += ":tap";
    step.probe = true;
    return probes_[at].emplace_back(std::move(step));
  }

  /// Gives the job its new steps and their lifetimes.
  void apply(plan::Job& job) {
    std::vector<plan::Step> steps = std::exchange(job.steps, {});
    const size_t of_shards = job.sharding ? job.sharding->steps.index() : 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!gone_[i]) job.steps.push_back(std::move(steps[i]));
      std::move(probes_[i].begin(), probes_[i].end(), std::back_inserter(job.steps));
      if (i + 1 == of_shards) job.sharding->steps = plan::StepId(job.steps.size());
    }
    plan::assign_lifetimes(job);
  }

 private:
  std::vector<bool> gone_;                       // by step
  std::vector<std::vector<plan::Step>> probes_;  // by step: behind it
};

}  // namespace flow::cuda
