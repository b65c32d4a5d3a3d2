// What is summed over shards, and where; and sums over the shards of all ranks: totals of one rank
// are exchanged while it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/nccl.h"
#include "runtime/cuda/loops/shard_sums.h"
#include "runtime/exec/ranks/buckets.h"
#include "runtime/exec/ranks/division.h"
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

/// Where the buckets of a rank lie in memory: the totals of each, and the wholes. Those of divided
/// gradients, and new values of variables, take the place of totals that have been exchanged. What
/// is received is added up before more of it comes, and shares one place.
struct RankPlan {
  std::vector<exec::Bucket> buckets = {};
  std::vector<size_t> totals = {}, wholes = {};  // by bucket: offsets
  std::vector<size_t> strides = {};              // ... from one rank's block to the next
  size_t received = 0;                           // an offset
  size_t bytes = 0;
};

/// `updates`: that may be divided.
RankPlan plan_rank_sums(const plan::Job& job, const SumPlan& sums,
                        std::span<const exec::SlicedUpdate> updates,
                        const exec::Collectives& ranks);

/// Exchanges, sums and gathers go through a stream of their own. Each rank puts them there in one
/// order: sums in that of buckets, then those of kernels, then variables.
class RankSums {
 public:
  /// Device memory of entries of the sums.
  struct Addresses {
    std::byte* part;                // where the whole goes, or this rank's slice of it
    std::byte* variable = nullptr;  // of a divided gradient
  };
  /// `memory`: RankPlan::bytes. `addresses`: by entry of `sums`. The driver and the communicator
  /// outlive it.
  RankSums(Driver& driver, Communicator& communicator, const exec::Collectives& ranks,
           const plan::Job& job, const SumPlan& sums, const RankPlan& plan, std::byte* memory,
           std::span<const Addresses> addresses);

  /// Where the total of an entry goes.
  std::byte* total(size_t entry) const { return totals_[entry]; }
  size_t buckets() const { return buckets_.size(); }
  /// All totals of the bucket are there behind what is in `stream`.
  void exchange(size_t bucket, Stream stream);
  /// Behind what is in `stream`, each part of the buckets that were exchanged is the whole; of
  /// divided gradients, the slice of this rank.
  void finish(Stream stream);

  /// Prepares to gather what kernels leave in `workspace`. Returns its number.
  size_t add_gather(const RankGather& gather, std::byte* workspace);
  /// Behind what is in `stream`, the blocks of all ranks are there.
  void gather(size_t number, Stream stream);
  /// Likewise, the variables of which ranks have updated slices.
  void gather_variables(Stream stream);
  bool divides() const { return divides_; }

  /// Transfers everything once, so that libraries have set up what they need.
  void rehearse(Stream stream);

 private:
  using Transfer = Communicator::Transfer;
  struct Copy {
    std::byte *to, *from;
    size_t bytes;
  };
  struct Transfers {
    std::vector<Transfer> sends, receives;
  };
  struct Bucket {
    Copy own;  // of the totals, to what is received
    Transfers totals;
    std::vector<RankPart> slices;  // that this rank adds up
    Transfers wholes;              // of a divided one: the variables
    std::vector<Copy> to_parts;
    std::vector<Copy> from_variables,
        to_variables;  // of a divided one: own slices, those of others
    bool divided = false, exchanged = false;
  };
  class BucketMaker;

  template <typename Sent, typename Received>
  static Transfers with_others(size_t ranks, size_t rank, const Sent& sent,
                               const Received& received);
  void copy(std::span<const Copy> copies, Stream stream);
  void transfer(const Transfers& transfers);
  /// What comes next in the own stream is behind what is in `stream`, and the other way round.
  void enter(Stream stream);
  void leave(Stream stream);

  Driver& driver_;
  Communicator& communicator_;
  const size_t ranks_, rank_;
  const int64_t shards_;
  OwnedStream stream_;
  OwnedEvent complete_, done_;
  std::vector<std::byte*> totals_;  // by entry
  std::vector<Bucket> buckets_;
  std::vector<Transfers> gathers_;
  bool divides_ = false;
};

}  // namespace flow::cuda
