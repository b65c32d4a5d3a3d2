// What joins the shards of a batch: sums over the shards of this rank, sums over ranks, whose
// totals are exchanged while a rank computes, and the updates that ranks divide.
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

/// What ShardSums leaves as totals of this rank becomes the wholes of all, in three phases a
/// bucket: totals are exchanged, slices are added up, results are gathered. Of divided gradients
/// each rank keeps its slice, with which it updates variables: their new values are gathered. A
/// bucket that is one divided gradient is not copied: its slice is added up where the gradient
/// lies, and the variable is gathered where it lies. One call at a time.
class RankSums {
 public:
  /// `traits`: for each entry of `sums`. `sums` and `ranks` outlive it.
  struct Traits {
    bool probe = false;    // made in some calls only
    bool divided = false;  // a gradient of which slices suffice
    bool final = false;    // do no steps of shards use its memory after the one that makes it?
  };
  using Address = std::function<std::byte*(size_t entry)>;
  RankSums(const ShardSums& sums, std::span<const Traits> traits, exec::Collectives& ranks,
           int threads);

  /// Of memory that it needs.
  size_t bytes() const { return bytes_; }
  /// `memory`: 64-byte aligned. `tensor`, `variable`: where an entry lies, and the variable that a
  /// divided one updates. All outlive it.
  void use(std::byte* memory, const Address& tensor, const Address& variable);
  /// What each rank sends in a call, on average.
  size_t bytes_sent() const { return exec::bytes_sent(buckets_, ranks_.size()); }

  std::span<const exec::Bucket> buckets() const { return buckets_; }

  /// Where the total of entry `entry` of this rank goes.
  std::byte* total(size_t entry) const;
  /// A call begins, in which the entries are made for which `made` is true.
  void begin(const std::function<bool(size_t entry)>& made);
  /// The total of an entry is there. That of the last one of a bucket starts its exchange.
  void complete(size_t entry);
  /// Moves on what is under way.
  void advance();
  /// Returns when all results are there, and writes them to where entries lie.
  void finish();
  /// After that: this rank has updated its slice of the variable whose divided gradient the entry
  /// is. The last one of a bucket starts to gather the variables.
  void updated(size_t entry);
  /// Returns when all variables are there.
  void finish_updates();

 private:
  enum class Phase { kIdle, kComputing, kExchanging, kGathering, kDone, kUpdating };
  struct State {
    Phase phase = Phase::kIdle;
    size_t incomplete = 0;  // entries whose totals, or updates, are not there
    exec::Collectives::Operation operation = 0;
    bool in_place = false;
    std::byte *totals = nullptr, *received = nullptr, *wholes = nullptr, *gathered = nullptr;
    size_t total_bytes = 0, received_bytes = 0, whole_bytes = 0;  // of memory of its own
    std::vector<size_t> receive_offsets, receive_bytes;           // by rank; this one receives none
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
  std::vector<State> states_;            // of each
  std::vector<size_t> bucket_of_;        // by entry
  std::vector<std::byte*> tensors_;      // by entry
  std::vector<std::byte*> variables_;    // by entry; of divided ones
  std::vector<const std::byte*> parts_;  // of the ranks, while a slice is added up
  size_t bytes_ = 0;
};

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
