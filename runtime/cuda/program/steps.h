// Functions that passes use to change a job's tensors and steps. Also determines which steps make
// and read each tensor, which steps compute constants, and which run in parallel on a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Adds a tensor that a step makes and that has separate memory.
inline plan::TensorId add_result(plan::Job& job, plan::Tensor tensor) {
  tensor.role = plan::Role::kResult;
  tensor.alias = plan::TensorId();
  tensor.combine.reset();
  job.tensors.push_back(std::move(tensor));
  return plan::TensorId{job.tensors.size() - 1};
}

/// Returns a step with one operand and one result that does a part of the work of `origin`.
inline plan::Step make_step(const plan::Step& origin, ops::OpRef op, std::string name,
                            plan::TensorId from, plan::TensorId to) {
  plan::Step step;
  step.op = op;
  step.name = std::move(name);
  step.inputs = {from};
  step.outputs = {to};
  step.where = origin.where;
  step.device = origin.device;
  return step;
}

/// Calls `add(step, index)` for each step of the job in order. `add` appends the replacements of
/// the step to job.steps.
template <typename Add>
void rewrite_steps(plan::Job& job, Add add) {
  std::vector<plan::Step> steps = std::exchange(job.steps, {});
  const size_t of_shards = job.sharding ? job.sharding->steps.index() : 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    add(std::move(steps[i]), i);
    if (i + 1 == of_shards) job.sharding->steps = plan::StepId(job.steps.size());
  }
}

/// Edits of a job's steps: some are removed, and others are added before and after them. Steps keep
/// their numbers until the edits are applied.
class StepEdits {
 public:
  explicit StepEdits(size_t steps) : gone_(steps), before_(steps), behind_(steps) {}

  bool is_gone(size_t step) const { return gone_[step]; }
  void remove(size_t step) { gone_[step] = true; }
  void add_before(size_t at, plan::Step step) { before_[at].push_back(std::move(step)); }
  void add_behind(size_t at, plan::Step step) { behind_[at].push_back(std::move(step)); }
  /// Adds a step that makes the current results of `step`, which is at position `at`, in the calls
  /// that deliver them.
  const plan::Step& add_probe(size_t at, plan::Step step) {
    step.name += ":tap";
    step.probe = true;
    return behind_[at].emplace_back(std::move(step));
  }

  /// Applies the edits to the job's steps and updates their lifetimes.
  void apply(plan::Job& job) {
    rewrite_steps(job, [&](plan::Step step, size_t i) {
      std::ranges::move(before_[i], std::back_inserter(job.steps));
      if (!gone_[i]) job.steps.push_back(std::move(step));
      std::ranges::move(behind_[i], std::back_inserter(job.steps));
    });
    plan::assign_lifetimes(job);
  }

 private:
  std::vector<bool> gone_;                                // indexed by step
  std::vector<std::vector<plan::Step>> before_, behind_;  // indexed by step
};

/// The uses of one tensor. Probes only count as `seen`, because the changes that passes make must
/// not depend on the tensors that are watched.
struct TensorUses {
  std::vector<size_t> readers;  // steps, one for each operand
  bool seen = false;            // true if a probe reads it, or if it is read outside of steps
  std::optional<size_t> maker;
};

/// Returns the uses, indexed by tensor. `visible` lists the tensors that are read outside of steps.
std::vector<TensorUses> find_uses(const plan::Job& job, std::span<const plan::TensorId> visible);

struct Constants {
  std::vector<uint8_t> steps;           // indexed by step; true if it computes a constant
  std::vector<plan::TensorId> tensors;  // the results of these steps
};

/// Finds the steps of ops without operands. Large results are not constants, because their memory
/// is worth more than the time to fill it.
Constants find_constants(const plan::Job& job);

/// Returns, for each step, whether it runs in parallel with the step before it. This is the case
/// for the two gradients of a product or a convolution, which read the same gradient of the result,
/// because neither of them keeps the device busy until its end. `owners` contains, for each tensor,
/// the tensor whose memory it uses; `parts` contains, for each step, its part of a call.
std::vector<uint8_t> find_parallel_steps(const plan::Job& job,
                                         std::span<const plan::TensorId> owners,
                                         std::span<const size_t> parts);

}  // namespace flow::cuda
