// Plans which tensors are summed over shards and where, and sums over the shards of all ranks. The
// totals of a rank are exchanged while it computes.
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

/// The tensors of which shards make parts. The levels of each tensor's tree have separate memory.
struct SumPlan {
  struct Entry {
    plan::TensorId tensor;
    size_t step;            // the step that makes the tensor
    size_t offset, stride;  // the offset of the first level; bytes from one level to the next
  };
  std::vector<Entry> entries = {};
  size_t bytes = 0;
};

/// Plans the sums. If several tensors share memory, the first of them represents them all. `owners`
/// contains, for each tensor, the tensor whose memory it uses. `ranks` is the number of ranks that
/// share the shards.
SumPlan plan_sums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks);

/// The positions of a rank's buckets in memory: the totals and the wholes of each bucket. The
/// wholes of divided gradients, and the new values of variables, reuse the memory of totals that
/// have already been exchanged. All buckets share one place for received totals, because these are
/// added before more are received.
struct RankPlan {
  std::vector<exec::Bucket> buckets = {};
  std::vector<size_t> totals = {}, wholes = {};  // offsets, indexed by bucket
  // Indexed by bucket: bytes from one rank's block to the next.
  std::vector<size_t> strides = {};
  size_t received = 0;  // the offset of received totals
  size_t bytes = 0;
};

/// `updates` lists the updates that may be divided.
RankPlan plan_rank_sums(const plan::Job& job, const SumPlan& sums,
                        std::span<const exec::SlicedUpdate> updates,
                        const exec::Collectives& ranks);

/// Exchanges, sums and gathers data of ranks in a separate stream. All ranks put their transfers
/// there in the same order: the sums of buckets in their order, then those of kernels, then
/// variables.
class RankSums {
 public:
  /// The device addresses of an entry of the sums.
  struct Addresses {
    std::byte* part;                // receives the whole tensor, or this rank's slice of it
    std::byte* variable = nullptr;  // the variable of a divided gradient
  };
  /// `memory` has RankPlan::bytes bytes. `addresses` is indexed by entry of `sums`. The driver and
  /// the communicator outlive this object.
  RankSums(Driver& driver, Communicator& communicator, const exec::Collectives& ranks,
           const plan::Job& job, const SumPlan& sums, const RankPlan& plan, std::byte* memory,
           std::span<const Addresses> addresses);

  /// Returns the address for the total of an entry.
  std::byte* total(size_t entry) const { return totals_[entry]; }
  size_t buckets() const { return buckets_.size(); }
  /// Starts to exchange the bucket. REQUIRES: The work that is in `stream` makes all totals of the
  /// bucket.
  void exchange(size_t bucket, Stream stream);
  /// Replaces each part of the exchanged buckets by the whole tensor, or by this rank's slice if
  /// the gradient is divided, after the work that is in `stream`.
  void finish(Stream stream);

  /// Prepares to gather the data that kernels leave in `workspace`. Returns the number of the
  /// gather.
  size_t add_gather(const RankGather& gather, std::byte* workspace);
  /// Gathers the blocks of all ranks after the work that is in `stream`. Later work in `stream`
  /// sees them.
  void gather(size_t number, Stream stream);
  /// Likewise gathers the variables of which ranks have updated slices.
  void gather_variables(Stream stream);
  bool divides() const { return divides_; }

  /// Transfers everything once, so that libraries complete their setup.
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
    Copy own;  // copies this rank's totals to the received ones
    Transfers totals;
    std::vector<RankPart> slices;  // the slices that this rank adds
    Transfers wholes;              // the variables if the bucket is divided
    std::vector<Copy> to_parts;
    // For a divided bucket: the slices of this rank, and those of the other ranks.
    std::vector<Copy> from_variables, to_variables;
    bool divided = false, exchanged = false;
  };
  class BucketMaker;

  template <typename Sent, typename Received>
  static Transfers with_others(size_t ranks, size_t rank, const Sent& sent,
                               const Received& received);
  void copy(std::span<const Copy> copies, Stream stream);
  void transfer(const Transfers& transfers);
  /// enter() makes later work in this object's stream wait for the work in `stream`; leave() does
  /// the reverse.
  void enter(Stream stream);
  void leave(Stream stream);

  Driver& driver_;
  Communicator& communicator_;
  const size_t ranks_, rank_;
  const int64_t shards_;
  OwnedStream stream_;
  OwnedEvent complete_, done_;
  std::vector<std::byte*> totals_;  // indexed by entry
  std::vector<Bucket> buckets_;
  std::vector<Transfers> gathers_;
  bool divides_ = false;
};

}  // namespace flow::cuda
