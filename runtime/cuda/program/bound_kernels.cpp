// Lists the kernels of all families, and prepares the kernels of a job's steps.
#include "runtime/cuda/program/bound_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

class KernelBinder {
 public:
  KernelBinder(const Grouped& grouped, const RankSlices& slices, size_t most_workspace,
               const KernelSource& source)
      : job_(grouped.job),
        groups_(grouped.updates),
        slices_(slices),
        most_workspace_(most_workspace),
        source_(source) {
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
          bound_.kernels[i] = kernel_for(i);
        }
      } catch (const RunError& error) {
        throw exec::at_step(step, error);
      }
    }
    return std::move(bound_);
  }

 private:
  /// Returns an empty kernel if the result is a slice without elements.
  Kernel kernel_for(size_t step) {
    const Request request = request_of(step);
    const TensorDesc& result = request.outputs[0];
    if (!result.bounds.empty() && result.shape.elements() == 0) return {};
    return kernel_of(request.step).prepare(request);
  }

  static const KernelEntry& kernel_of(const plan::Step& step) {
    const KernelEntry* entry = find_kernel(step.op.name());
    if (!entry)
      throw RunError(fmt::format("the GPU has no kernel for `{}`", step.op.name()),
                     "run the job on the CPU: --device cpu");
    return *entry;
  }

  void add_updates(const UpdateGroup& group) {
    std::vector<Request> requests;
    for (size_t i = group.first; i < group.end; ++i) requests.push_back(request_of(i));
    bound_.updates.push_back(kernel_of(requests[0].step).prepare_updates(requests));
  }

  TensorDesc desc_of(size_t step, TensorId id) const {
    const plan::Tensor& tensor = job_[id];
    TensorDesc desc{tensor.name, tensor.dtype, tensor.shape, true, tensor.batch_axis};
    const exec::TensorSlice slice = slices_.division.slice(step, id);
    if (slice.bounds.empty()) return desc;
    desc.shape = {slice.elements};
    desc.bounds = slice.bounds;
    return desc;
  }

  /// A second result that no step reads is described like the first one, because kernels only check
  /// whether it is used.
  TensorDesc result_of(size_t step, TensorId id) const {
    if (id.valid()) return desc_of(step, id);
    TensorDesc desc = desc_of(step, job_.steps[step].outputs[0]);
    desc.used = false;
    return desc;
  }

  Request request_of(size_t index) {
    const plan::Step& step = job_.steps[index];
    Request request{{.step = step, .seed = job_.seed, .shards = plan::shards_of(job_)},
                    math_mode_of(job_),
                    source_.driver,
                    source_.libraries,
                    bound_.checks,
                    slices_.rank,
                    most_workspace_,
                    source_.fuse,
                    source_.timer};
    for (TensorId id : step.inputs) request.inputs.push_back(desc_of(index, id));
    for (TensorId id : step.outputs) request.outputs.push_back(result_of(index, id));
    for (const plan::EpilogueOp& fused : step.epilogue) {
      request.epilogue_operands.emplace_back();
      for (TensorId id : fused.operands)
        request.epilogue_operands.back().push_back(desc_of(index, id));
    }
    return request;
  }

  const plan::Job& job_;
  const std::vector<UpdateGroup>& groups_;
  const RankSlices& slices_;
  const size_t most_workspace_;
  const KernelSource& source_;
  BoundKernels bound_;
};

}  // namespace

std::span<const KernelEntry> all_kernels() {
  static const std::vector<KernelEntry> kKernels = [] {
    std::vector<KernelEntry> all;
    for (const auto family : {
#define FLOW_LAYERS(family)
#define FLOW_FAMILY(family) kernels::family,
#include "ops/families.def"
         })
      all.insert(all.end(), family().begin(), family().end());
    return all;
  }();
  return kKernels;
}

const KernelEntry* find_kernel(std::string_view op) { return exec::find_kernel(all_kernels(), op); }

std::vector<size_t> BoundKernels::workspaces(std::span<const UpdateGroup> groups) const {
  std::vector<size_t> bytes;
  for (const Kernel& kernel : kernels) bytes.push_back(kernel.workspace);
  for (size_t i = 0; i < groups.size(); ++i) bytes[groups[i].first] = updates[i].workspace;
  return bytes;
}

size_t BoundKernels::gathered() const {
  size_t bytes = 0;
  const auto add = [&](const RankGather& gather) {
    bytes = std::reduce(gather.bytes.begin(), gather.bytes.end(), bytes);
  };
  for (const Kernel& kernel : kernels) add(kernel.gather);
  for (const Updates& group : updates) add(group.gather);
  return bytes;
}

std::vector<exec::LibraryStep> list_library_steps(const plan::Job& job, const BoundKernels& bound) {
  std::vector<exec::LibraryStep> steps;
  for (size_t i = 0; i < bound.kernels.size(); ++i)
    if (const Kernel& kernel = bound.kernels[i]; !kernel.name.empty())
      steps.push_back({job.steps[i].name, kernel.name, kernel.workspace});
  return steps;
}

BoundKernels bind_kernels(const Grouped& grouped, std::span<const TensorId> owners,
                          const RankSlices& slices, size_t most_workspace,
                          const KernelSource& source) {
  return KernelBinder(grouped, slices, most_workspace, source).prepare(owners);
}

}  // namespace flow::cuda
