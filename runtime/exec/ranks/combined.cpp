// Tensors whose parts are combined, as the plan says.
#include "runtime/exec/ranks/combined.h"

#include <algorithm>
#include <set>

namespace flow::exec {

std::vector<Combined> list_combined(const plan::Job& job, std::span<const plan::TensorId> owners) {
  std::vector<Combined> combined;
  if (!job.sharding) return combined;
  std::set<plan::TensorId> seen;
  for (size_t step = 0; step < job.sharding->steps.index(); ++step)
    for (const plan::TensorId id : job.steps[step].outputs)
      if (id.valid() && job[id].combine && *job[id].combine != plan::Combine::kNone &&
          seen.insert(owners[id.index()]).second)
        combined.push_back({id, step});
  return combined;
}

size_t total_size(const plan::Tensor& tensor) {
  if (!is_float(tensor.dtype)) return size_of(tensor.dtype);
  return tensor.shape.rank() == 0 ? sizeof(double) : std::max(sizeof(float), size_of(tensor.dtype));
}

}  // namespace flow::exec
