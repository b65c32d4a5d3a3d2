// What joins the shards of a batch: sums over the shards of this rank, sums over ranks, and the
// updates that ranks divide.
#pragma once

#include <memory>
#include <span>

#include "runtime/cpu/backend/rank_sums.h"
#include "runtime/cpu/backend/shard_sums.h"
#include "runtime/cpu/kernel.h"
#include "runtime/exec/ranks/division.h"

namespace flow::cpu {

/// Empty where the batch is not cut; without ranks where one has all shards.
struct Sums {
  std::unique_ptr<ShardSums> shards;
  std::unique_ptr<RankSums> ranks;
  exec::Division division;
};

struct SumsRequest {
  const plan::Job& job;
  std::span<const plan::TensorId> owners;  // by tensor
  std::span<const Layout> layouts;         // by tensor
  std::span<const plan::TensorId> deliverables;
  int threads = 1;
  exec::Collectives* ranks = nullptr;
  bool divides = true;  // do kernels take slices?
};

Sums make_sums(const SumsRequest& request);

}  // namespace flow::cpu
