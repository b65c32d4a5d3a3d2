// Sums over the shards of all ranks: totals of one rank are exchanged while it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/driver/handles.h"
#include "runtime/cuda/kernels/shard_sums.h"
#include "runtime/cuda/libraries/nccl.h"
#include "runtime/cuda/program/sum_plan.h"
#include "runtime/exec/ranks/buckets.h"

namespace flow::cuda {

/// Where the buckets of a rank lie in memory: the totals of each, and the wholes. What is received
/// is added up before more of it comes, and shares one place.
struct RankPlan {
  std::vector<exec::Bucket> buckets = {};
  std::vector<size_t> totals = {}, wholes = {};  // by bucket: offsets
  std::vector<size_t> strides = {};              // ... from one rank's block to the next
  size_t received = 0;                           // an offset
  size_t bytes = 0;
};

RankPlan plan_rank_sums(const plan::Job& job, const SumPlan& sums, const exec::Collectives& ranks);

/// Exchanges, sums and gathers go through a stream of their own. Each rank puts them there in one
/// order, that of buckets.
class RankSums {
 public:
  /// `memory`: RankPlan::bytes. `parts`: by entry of `sums`, where wholes go. The driver and the
  /// communicator outlive it.
  RankSums(Driver& driver, Communicator& communicator, const exec::Collectives& ranks,
           const plan::Job& job, const SumPlan& sums, const RankPlan& plan, std::byte* memory,
           const std::vector<std::byte*>& parts);

  /// Where the total of an entry goes.
  std::byte* total(size_t entry) const { return totals_[entry]; }
  size_t buckets() const { return buckets_.size(); }
  /// All totals of the bucket are there behind what is in `stream`.
  void exchange(size_t bucket, Stream stream);
  /// Behind what is in `stream`, each part of the buckets that were exchanged is the whole.
  void finish(Stream stream);
  /// Runs everything once, so that libraries have set up what they need.
  void rehearse(Stream stream);

 private:
  using Transfer = Communicator::Transfer;
  struct Copy {
    std::byte *to, *from;
    size_t bytes;
  };
  struct Bucket {
    Copy own;  // of the totals, to what is received
    std::vector<Transfer> sends, receives;
    std::vector<RankPart> slices;  // that this rank adds up
    std::vector<Transfer> sends_of_wholes, receives_of_wholes;
    std::vector<Copy> wholes;  // to the parts
    bool exchanged = false;
  };
  class BucketMaker;

  void copy(const Copy& copy, Stream stream);

  Driver& driver_;
  Communicator& communicator_;
  const int ranks_;
  const int64_t shards_;
  OwnedStream stream_;
  OwnedEvent complete_, done_;
  std::vector<std::byte*> totals_;  // by entry
  std::vector<Bucket> buckets_;
};

}  // namespace flow::cuda
