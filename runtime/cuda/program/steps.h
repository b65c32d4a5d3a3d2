// What passes change in a job's tensors and in the list of its steps; who makes and reads each
// tensor, which steps compute constants, and which run at the same time on a device.
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

/// Adds a tensor that a step makes, with memory of its own.
inline plan::TensorId add_result(plan::Job& job, plan::Tensor tensor) {
  tensor.role = plan::Role::kResult;
  tensor.alias = plan::TensorId();
  tensor.combine.reset();
  job.tensors.push_back(std::move(tensor));
  return plan::TensorId{job.tensors.size() - 1};
}

/// A step of one operand and one result, for what `origin` does.
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

/// Calls `add(step, index)` for each step of the job, in order, which puts into job.steps what
/// comes in its place.
template <typename Add>
void rewrite_steps(plan::Job& job, Add add) {
  std::vector<plan::Step> steps = std::exchange(job.steps, {});
  const size_t of_shards = job.sharding ? job.sharding->steps.index() : 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    add(std::move(steps[i]), i);
    if (i + 1 == of_shards) job.sharding->steps = plan::StepId(job.steps.size());
  }
}

/// Steps that go, and others that come before and behind them. Steps keep their numbers until it is
/// applied.
class StepEdits {
 public:
  explicit StepEdits(size_t steps) : gone_(steps), before_(steps), behind_(steps) {}

  bool is_gone(size_t step) const { return gone_[step]; }
  void remove(size_t step) { gone_[step] = true; }
  void add_before(size_t at, plan::Step step) { before_[at].push_back(std::move(step)); }
  void add_behind(size_t at, plan::Step step) { behind_[at].push_back(std::move(step)); }
  /// Adds a step that makes, in calls that deliver it, what `step`, which stands at `at`, makes
  /// now.
  const plan::Step& add_probe(size_t at, plan::Step step) {
    step.name += ":tap";
    step.probe = true;
    return behind_[at].emplace_back(std::move(step));
  }

  /// Gives the job its new steps and their lifetimes.
  void apply(plan::Job& job) {
    rewrite_steps(job, [&](plan::Step step, size_t i) {
      std::ranges::move(before_[i], std::back_inserter(job.steps));
      if (!gone_[i]) job.steps.push_back(std::move(step));
      std::ranges::move(behind_[i], std::back_inserter(job.steps));
    });
    plan::assign_lifetimes(job);
  }

 private:
  std::vector<bool> gone_;                                // by step
  std::vector<std::vector<plan::Step>> before_, behind_;  // by step
};

/// Of one tensor. Probes do not count but as `seen`: what passes change may not depend on what is
/// watched.
struct TensorUses {
  std::vector<size_t> readers;  // steps, one for each operand
  bool seen = false;            // by probes, or from outside
  std::optional<size_t> maker;
};

/// By tensor. `visible`: what is seen from outside.
std::vector<TensorUses> find_uses(const plan::Job& job, std::span<const plan::TensorId> visible);

struct Constants {
  std::vector<uint8_t> steps;           // by step: does it compute a constant?
  std::vector<plan::TensorId> tensors;  // their results
};

/// Steps of ops without operands. Large results are no constants: their memory is worth more than
/// the time to fill it.
Constants find_constants(const plan::Job& job);

/// By step: does it run beside the step before it? So do the gradients of a product or a
/// convolution, which read the same gradient of the result: neither fills a device to its end.
/// `owners`: by tensor, whose memory it lies in; `parts`: of a call, by step.
std::vector<uint8_t> find_parallel_steps(const plan::Job& job,
                                         std::span<const plan::TensorId> owners,
                                         std::span<const size_t> parts);

}  // namespace flow::cuda
