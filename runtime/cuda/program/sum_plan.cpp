// What is summed over shards, and where.
#include "runtime/cuda/program/sum_plan.h"

#include <bit>
#include <set>

#include "runtime/cuda/kernels/shard_sums.h"
#include "runtime/cuda/program/program_memory.h"

namespace flow::cuda {

using plan::TensorId;

SumPlan plan_sums(const plan::Job& job, std::span<const TensorId> owners, int64_t ranks) {
  SumPlan sums;
  if (!job.sharding) return sums;
  const auto levels =
      static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(job.sharding->count / ranks)));
  std::set<TensorId> seen;
  for (size_t step = 0; step < job.sharding->steps.index(); ++step)
    for (const TensorId id : job.steps[step].outputs) {
      if (!id.valid() || job[id].combine.value_or(plan::Combine::kNone) == plan::Combine::kNone)
        continue;
      if (!seen.insert(owners[id.index()]).second) continue;
      const plan::Tensor& tensor = job[id];
      const size_t stride =
          aligned(level_bytes(tensor.dtype, tensor.shape.rank() == 0, tensor.shape.elements()));
      sums.entries.push_back({id, step, sums.bytes, stride});
      sums.bytes += levels * stride;
    }
  return sums;
}

}  // namespace flow::cuda
