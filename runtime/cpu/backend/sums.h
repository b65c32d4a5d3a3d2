// Joins the shards of a batch: sums over the shards of this rank, sums over ranks, whose totals are
// exchanged while a rank computes, and the updates that ranks divide.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cpu/backend/shard_sums.h"
#include "runtime/cpu/kernel.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/ranks/buckets.h"
#include "runtime/exec/ranks/division.h"

namespace flow::cpu {

/// Turns the totals of each rank, which ShardSums computes, into whole tensors on all ranks. Each
/// bucket has three phases: totals are exchanged, slices are added, and results are gathered. Each
/// rank keeps only its slice of a divided gradient and updates its slice of the variable, and then
/// the new values are gathered. A bucket that consists of one divided gradient is not copied: its
/// slice is added in the memory of the gradient, and the variable is gathered in its own memory.
/// Only one call may run at a time.
class RankSums {
 public:
  /// `traits` contains one element for each entry of `sums`. `sums` and `ranks` outlive this
  /// object.
  struct Traits {
    bool probe = false;    // computed only in some calls
    bool divided = false;  // a gradient of which each rank needs only a slice
    // True if no step of a shard uses the entry's memory after the step that makes it.
    bool final = false;
  };
  using Address = std::function<std::byte*(size_t entry)>;
  RankSums(const ShardSums& sums, std::span<const Traits> traits, exec::Collectives& ranks,
           int threads);

  /// Returns the number of bytes of memory that the sums need.
  size_t bytes() const { return bytes_; }
  /// `memory` is 64-byte aligned. `tensor` returns the address of an entry, and `variable` that of
  /// the variable that a divided entry updates. All of this memory outlives this object.
  void use(std::byte* memory, const Address& tensor, const Address& variable);
  /// Returns the average number of bytes that a rank sends in a call.
  size_t bytes_sent() const { return exec::bytes_sent(buckets_, ranks_.size()); }

  std::span<const exec::Bucket> buckets() const { return buckets_; }

  /// Returns the address for this rank's total of entry `entry`.
  std::byte* total(size_t entry) const;
  /// Begins a call, which makes the entries for which `made` is true.
  void begin(const std::function<bool(size_t entry)>& made);
  /// Reports that the total of an entry is complete. The last entry of a bucket starts the bucket's
  /// exchange.
  void complete(size_t entry);
  /// Advances pending operations without waiting for them.
  void advance();
  /// Waits until all results are available, and writes them to the memory of the entries.
  void finish();
  /// Reports, after finish(), that this rank has updated its slice of the variable that belongs to
  /// the divided gradient `entry`. The last entry of a bucket starts to gather the bucket's
  /// variables.
  void updated(size_t entry);
  /// Waits until all variables are complete.
  void finish_updates();

 private:
  enum class Phase { kIdle, kComputing, kExchanging, kGathering, kDone, kUpdating };
  struct State {
    Phase phase = Phase::kIdle;
    size_t incomplete = 0;  // entries whose totals, or updates, are missing
    exec::Collectives::Operation operation = 0;
    bool in_place = false;
    std::byte *totals = nullptr, *received = nullptr, *wholes = nullptr, *gathered = nullptr;
    // Sizes of this bucket's separate memory.
    size_t total_bytes = 0, received_bytes = 0, whole_bytes = 0;
    // Indexed by rank; this rank receives nothing from itself.
    std::vector<size_t> receive_offsets, receive_bytes;
    std::vector<size_t> send_offsets, send_bytes;
  };

  void plan(size_t bucket, bool in_place);
  void start(size_t bucket);
  void advance(size_t bucket);
  void gather(size_t bucket);
  void add_up(size_t bucket);
  void add_up(size_t bucket, const exec::Slice& slice, size_t start);
  size_t place_of(size_t entry) const;
  std::byte* whole(size_t entry, int64_t first) const;
  void write(size_t bucket) const;
  void write(const exec::Slice& slice, std::byte* tensor) const;

  const ShardSums& sums_;
  exec::Collectives& ranks_;
  const int threads_;
  std::vector<exec::Bucket> buckets_;
  std::vector<State> states_;            // indexed by bucket
  std::vector<size_t> bucket_of_;        // indexed by entry
  std::vector<std::byte*> tensors_;      // indexed by entry
  std::vector<std::byte*> variables_;    // indexed by entry; set for divided ones
  std::vector<const std::byte*> parts_;  // the parts of all ranks while a slice is added
  size_t bytes_ = 0;
};

/// The sums of a job. All members are empty if the batch is not cut; `ranks` is null if one rank
/// has all shards.
struct Sums {
  std::unique_ptr<ShardSums> shards;
  std::unique_ptr<RankSums> ranks;
  exec::Division division;
};

struct SumsRequest {
  const plan::Job& job;
  std::span<const plan::TensorId> owners;  // indexed by tensor
  std::span<const Layout> layouts;         // indexed by tensor
  std::span<const plan::TensorId> deliverables;
  int threads = 1;
  exec::Collectives* ranks = nullptr;
  bool divides = true;  // true if kernels accept slices
};

Sums make_sums(const SumsRequest& request);

}  // namespace flow::cpu
