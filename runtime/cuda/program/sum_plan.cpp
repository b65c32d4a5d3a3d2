// What is summed over shards, and where.
#include "runtime/cuda/program/sum_plan.h"

#include <bit>

#include "runtime/cuda/loops/shard_sums.h"
#include "runtime/cuda/program/program_memory.h"
#include "runtime/exec/ranks/combined.h"

namespace flow::cuda {

SumPlan plan_sums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks) {
  SumPlan sums;
  if (!job.sharding) return sums;
  const auto levels =
      static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(job.sharding->count / ranks)));
  for (const auto& [id, step] : exec::list_combined(job, owners)) {
    const plan::Tensor& tensor = job[id];
    const size_t stride =
        aligned(level_bytes(tensor.dtype, tensor.shape.rank() == 0, tensor.shape.elements()));
    sums.entries.push_back({id, step, sums.bytes, stride});
    sums.bytes += levels * stride;
  }
  return sums;
}

}  // namespace flow::cuda
