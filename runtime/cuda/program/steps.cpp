// Determines which steps make and read each tensor. Also finds the steps that compute constants,
// and pairs of neighboring steps that do not depend on each other.
#include "runtime/cuda/program/steps.h"

#include <algorithm>

#include "ops/core/spec.h"
#include "ops/recurrent/cuda_library.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

/// The memory that a step reads or writes.
struct Operands {
  std::vector<TensorId> read, written;
};

Operands operands_of(const plan::Step& step, std::span<const TensorId> owners) {
  Operands operands;
  plan::visit_operands(step, [&](TensorId id) { operands.read.push_back(owners[id.index()]); });
  for (const TensorId id : step.outputs)
    if (id.valid()) operands.written.push_back(owners[id.index()]);
  return operands;
}

bool share_any(const std::vector<TensorId>& a, const std::vector<TensorId>& b) {
  return std::ranges::any_of(a, [&](TensorId id) { return std::ranges::find(b, id) != b.end(); });
}

/// Returns true if the step is a product. Excludes recurrent layers that the library computes,
/// because the library runs them in separate streams.
bool is_product(const plan::Step& step) {
  return step.op->flops.product && !step.probe && !is_library_layer(step);
}

}  // namespace

std::vector<TensorUses> find_uses(const plan::Job& job, std::span<const TensorId> visible) {
  std::vector<TensorUses> uses(job.tensors.size());
  for (const TensorId id : visible)
    if (id.valid()) uses[id.index()].seen = true;
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    plan::visit_operands(step, [&](TensorId id) {
      if (step.probe)
        uses[id.index()].seen = true;
      else
        uses[id.index()].readers.push_back(i);
    });
    for (const TensorId id : step.outputs)
      if (id.valid()) uses[id.index()].maker = i;
  }
  return uses;
}

Constants find_constants(const plan::Job& job) {
  constexpr size_t kMostBytes = 1 << 20;  // a launch takes as long as writing this many bytes
  Constants constants{std::vector<uint8_t>(job.steps.size()), {}};
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    if (!step.op->operands.empty() || !step.epilogue.empty() || step.probe) continue;
    const plan::TensorId result = step.outputs[0];
    if (exec::bytes_of(job[result]) > kMostBytes) continue;
    if (job[result].alias.valid()) continue;  // the state of a loop, which each call sets
    constants.steps[i] = 1;
    constants.tensors.push_back(result);
  }
  return constants;
}

std::vector<uint8_t> find_parallel_steps(const plan::Job& job, std::span<const TensorId> owners,
                                         std::span<const size_t> parts) {
  std::vector<uint8_t> parallel(job.steps.size());
  const auto writes_variable = [&](const Operands& operands) {
    return std::ranges::any_of(operands.written,
                               [&](TensorId id) { return job[id].role == plan::Role::kVariable; });
  };
  for (size_t i = 1; i < job.steps.size(); ++i) {
    const plan::Step &one = job.steps[i - 1], &other = job.steps[i];
    if (parallel[i - 1] || !is_product(one) || !is_product(other) || parts[i - 1] != parts[i])
      continue;
    const Operands first = operands_of(one, owners), second = operands_of(other, owners);
    parallel[i] = share_any(first.read, second.read) && !share_any(first.written, second.read) &&
                  !share_any(second.written, first.read) &&
                  !share_any(first.written, second.written) && !writes_variable(first) &&
                  !writes_variable(second);
  }
  return parallel;
}

}  // namespace flow::cuda
