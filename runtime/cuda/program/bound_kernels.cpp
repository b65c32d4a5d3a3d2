// From steps to kernels.
#include "runtime/cuda/program/bound_kernels.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/exec/run/memory.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

class KernelBinder {
 public:
  KernelBinder(const Grouped& grouped, Driver& driver, Libraries& libraries)
      : job_(grouped.job), groups_(grouped.updates), driver_(driver), libraries_(libraries) {
    bound_.kernels.resize(job_.steps.size());
  }

  BoundKernels prepare(std::span<const TensorId> owners) {
    auto group = groups_.begin();
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      const plan::Step& step = job_.steps[i];
      try {
        if (group != groups_.end() && group->first == i) {
          add_updates(*group);
          i = group++->end - 1;
        } else if (!exec::is_view(step, owners)) {
          bound_.kernels[i] = kernel_of(step).prepare(request_of(step));
        }
      } catch (const RunError& error) {
        throw error.at(fmt::format("{}: step `{}`", step.where, step.name));
      }
    }
    return std::move(bound_);
  }

 private:
  static const KernelEntry& kernel_of(const plan::Step& step) {
    const KernelEntry* entry = find_kernel(step.op.name());
    if (!entry)
      throw RunError(fmt::format("the GPU has no kernel for `{}`", step.op.name()),
                     "run the job on the CPU: --device cpu");
    return *entry;
  }

  void add_updates(const UpdateGroup& group) {
    std::vector<Request> requests;
    for (size_t i = group.first; i < group.end; ++i) requests.push_back(request_of(job_.steps[i]));
    Updates updates = kernel_of(requests[0].step).prepare_updates(requests);
    bound_.kernels[group.first].workspace = updates.workspace;
    bound_.updates.push_back(std::move(updates.launch));
  }

  TensorDesc desc_of(TensorId id) const {
    const plan::Tensor& tensor = job_[id];
    return {tensor.name, tensor.dtype, tensor.shape, true, tensor.batch_axis};
  }

  /// A second result that nobody reads is described like the first: kernels only ask if it is used.
  TensorDesc result_of(const plan::Step& step, TensorId id) const {
    if (id.valid()) return desc_of(id);
    TensorDesc desc = desc_of(step.outputs[0]);
    desc.used = false;
    return desc;
  }

  Request request_of(const plan::Step& step) {
    Request request{step,
                    {},
                    {},
                    {},
                    job_.seed,
                    math_mode_of(job_),
                    driver_,
                    libraries_,
                    bound_.checks,
                    plan::shards_of(job_)};
    for (TensorId id : step.inputs) request.inputs.push_back(desc_of(id));
    for (TensorId id : step.outputs) request.outputs.push_back(result_of(step, id));
    for (const plan::EpilogueOp& fused : step.epilogue) {
      request.epilogue_operands.emplace_back();
      for (TensorId id : fused.operands) request.epilogue_operands.back().push_back(desc_of(id));
    }
    return request;
  }

  const plan::Job& job_;
  const std::vector<UpdateGroup>& groups_;
  Driver& driver_;
  Libraries& libraries_;
  BoundKernels bound_;
};

}  // namespace

BoundKernels bind_kernels(const Grouped& grouped, std::span<const TensorId> owners, Driver& driver,
                          Libraries& libraries) {
  return KernelBinder(grouped, driver, libraries).prepare(owners);
}

}  // namespace flow::cuda
