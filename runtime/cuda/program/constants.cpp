// Finding the steps that compute constants.
#include "runtime/cuda/program/constants.h"

#include "ops/core/spec.h"
#include "runtime/exec/core/memory.h"

namespace flow::cuda {

Constants find_constants(const plan::Job& job) {
  constexpr size_t kMostBytes = 1 << 20;  // a launch takes as long as writing so much
  Constants constants{std::vector<uint8_t>(job.steps.size()), {}};
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    if (!step.op->operands.empty() || !step.epilogue.empty() || step.probe) continue;
    const plan::TensorId result = step.outputs[0];
    if (exec::bytes_of(job[result]) > kMostBytes) continue;
    if (job[result].alias.valid()) continue;  // the state of a loop, set by each call
    constants.steps[i] = 1;
    constants.tensors.push_back(result);
  }
  return constants;
}

}  // namespace flow::cuda
