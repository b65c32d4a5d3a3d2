// What is summed over shards, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The tensors of which shards make parts, each with levels of a tree in memory of their own.
struct SumPlan {
  struct Entry {
    plan::TensorId tensor;
    size_t step;            // that makes it
    size_t offset, stride;  // of its first level, and from one level to the next
  };
  std::vector<Entry> entries = {};
  size_t bytes = 0;
};

/// Of several tensors in one memory, the first stands for all. `owners`: by tensor, whose memory it
/// lies in. `ranks`: that share the shards.
SumPlan plan_sums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks);

}  // namespace flow::cuda
