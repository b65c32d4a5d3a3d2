// What one call puts into the streams, in its order: while a graph is captured, or directly; and
// the time that its steps take, from events between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/loops/shard_sums.h"
#include "runtime/cuda/program/bound_kernels.h"
#include "runtime/cuda/program/device_dataset.h"
#include "runtime/cuda/program/program_fingerprints.h"
#include "runtime/cuda/program/program_memory.h"
#include "runtime/cuda/program/rank_sums.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// Without timed steps, marks are ignored.
class CallTimes {
 public:
  /// The driver outlives it.
  CallTimes(Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}

  /// From now on times are taken. `marks`: of a call, at most.
  void take(std::vector<exec::TimedStep> steps, size_t marks, size_t output_slots);
  const std::vector<exec::TimedStep>& steps() const { return steps_; }

  void begin(size_t output_slot);
  /// What has been put since the mark before belongs to that timed step.
  void mark(size_t output_slot, size_t step);
  /// As Program::step_times, of a call that is complete and began at `begin`.
  void read(size_t output_slot, int64_t begin, std::span<int64_t> times) const;

 private:
  struct Marks {
    std::vector<OwnedEvent> reached;  // when a call begins, then what `ended` says
    std::vector<size_t> ended;        // which timed step, of the last call
  };

  Driver& driver_;
  const Stream stream_;
  std::vector<exec::TimedStep> steps_;
  std::vector<Marks> marks_;  // by output slot
};

/// A job's steps, prepared, and where their tensors lie. A part of a call is what a graph holds: a
/// segment; where the batch is cut, the steps of one shard, and then those that run once.
struct PreparedJob {
  const Grouped& grouped;
  BoundKernels bound = {};
  std::vector<plan::TensorId> owners = {};  // by tensor: whose memory it lies in
  std::vector<exec::Place> places = {};     // by tensor
  std::vector<size_t> workspaces = {};      // by step: offset in the arena
  std::vector<exec::SharedVariable> shared = {};
  std::span<const exec::TransferredTensor>
      transferred;            // through host memory, to or from another device
  std::vector<size_t> parts;  // by step: in which it runs
  size_t part_count = 1;
  Constants constants = {};
  std::vector<uint8_t> parallel = {};  // by step: runs beside the step before
  SumPlan sums = {};
  size_t sums_offset = 0;  // in the arena
  // Several ranks run the job: this one has shards [first_shard, end_shard).
  int64_t first_shard = 0, end_shard = 1;
  exec::Division division = {};
  RankPlan rank_sums = {};
  size_t rank_sums_offset = 0;  // in the arena
  Versions versions = {};
  exec::FingerprintPlan fingerprints = {};  // where it takes them
  size_t fingerprints_offset = 0;           // in the arena
};

/// Copies to the host go through a stream of their own, beside the kernels that follow. So does the
/// second of two parallel steps, where no times are taken.
class GraphCapture {
 public:
  /// Borrows the driver, the columns and the memory. `rank_sums`: null where one rank has all
  /// shards.
  GraphCapture(Driver& driver, Stream stream, const PreparedJob& job, const KeptColumns& columns,
               const ProgramMemory& memory, std::span<const plan::TensorId> deliverables,
               RankSums* rank_sums);

  /// Parts of a job, then the pieces in which several ranks put the steps of their last shard, and
  /// those behind shards. A piece ends where ranks exchange something: a bucket that is complete,
  /// or sums within a step.
  size_t parts() const { return part_ends_.size() + piece_ends_.size(); }
  size_t pieces() const { return piece_ends_.size(); }
  size_t shard_pieces() const { return shard_pieces_; }

  /// Does what is put from now on take fingerprints? REQUIRES: the job was prepared for that.
  void take_fingerprints(bool take) { takes_fingerprints_ = take; }

  /// Puts a part of a call: `wanted` says for each deliverable whether it is delivered. Without
  /// shards, what comes before the first step belongs to it.
  void put(size_t part, std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot);

  // Of a call in shards, around its parts, which may be graphs. These are never captured.
  /// Before the first shard.
  void begin(std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot);
  void begin_shard(int64_t shard, size_t input_slot, size_t output_slot);
  /// Behind a piece of the last shard: starts the exchange of what it completes. Behind one of
  /// the other steps: gathers sums; behind the last piece, variables.
  void end_piece(size_t piece, std::span<const uint8_t> wanted, size_t output_slot);
  /// Delivers what the shard made, and adds it to the sums.
  void end_shard(int64_t shard, std::span<const uint8_t> wanted, size_t output_slot);
  /// From here on copies to the host are complete.
  void join_copies();

  /// Computes what every call only reads. REQUIRES: before the first call.
  void put_constants();
  /// Runs each step once, so that graphs exclude what libraries set up at first use, and a step
  /// that cannot run is an error with its line and name. Results are lost. The kernels of steps
  /// that write variables are only loaded.
  void rehearse(const PreparedJob& job);
  /// How long the fingerprints of a call take, by the device's clock. Loads their kernels, which a
  /// capture cannot. REQUIRES: nothing is captured yet.
  double time_fingerprints();
  /// From now on each call's items leave events between them. REQUIRES: calls are not captured.
  void take_times(const PreparedJob& job, size_t output_slots);
  const CallTimes& times() const { return times_; }
  /// After a put that failed: the stream of copies takes no part in a capture any more.
  void abandon();

 private:
  struct Operands {
    std::vector<std::byte*> inputs, outputs;
    std::vector<std::vector<std::byte*>> epilogue;
    std::vector<std::span<std::byte* const>> epilogue_spans;
    std::byte* workspace;
  };
  struct CopyOut {
    size_t index;  // of the deliverable
    std::byte* from;
    size_t offset;  // in an output slot
    RowCopy rows;
    size_t per_shard = 0;  // bytes in an output slot; 0: only the first shard's is copied
  };
  /// A step, or the updates that are launched as one.
  struct Item {
    LaunchUpdates launch;          // empty: nothing to do
    LaunchUpdates finish;          // behind a gather
    std::optional<size_t> gather;  // of RankSums: splits the item, with which a piece then ends
    std::vector<Operands> operands;
    std::vector<Buffers> buffers;         // of `operands`
    size_t first = 0, end = 0;            // the steps
    bool updates = false, probe = false;  // updates: it writes variables
    bool parallel = false;                // it runs beside the item before
    bool constant = false;                // it runs before the first call, and never again
    std::vector<size_t> wanted_by;        // of a probe: the deliverables that need it
    std::vector<CopyOut> deliveries;

    bool runs(std::span<const uint8_t> wanted) const;
  };
  /// Sums over shards of what every call makes are launched together.
  struct Sums {
    std::vector<ShardPart> always, of_probes;
    std::vector<size_t> probes;  // the items that make those
  };
  /// Of several ranks: what the last shard makes, by bucket.
  struct Bucket {
    std::vector<ShardPart> parts;
    size_t item;   // that makes the last of them
    size_t piece;  // that ends with it
  };

  LaunchState launch_state(size_t output_slot) const {
    return {driver_, stream_, memory_.call(), &memory_.fault(output_slot)};
  }
  Operands operands_of(const PreparedJob& job, size_t step) const;
  void add_step(const PreparedJob& job, size_t step);
  void add_updates(const PreparedJob& job, const UpdateGroup& group, const Updates& updates);
  void keep_item(Item item);
  void add_gather(Item& item, const RankGather& gather) const;
  void add_branch(const PreparedJob& job);
  void end_parts(const PreparedJob& job);
  void plan_deliveries(const PreparedJob& job, std::span<const plan::TensorId> deliverables);
  CopyOut copy_out(const PreparedJob& job, size_t index, plan::TensorId id, bool of_shards) const;
  void place_sums(const PreparedJob& job);
  void place_buckets(const PreparedJob& job);
  void cut_pieces();
  ShardPart part_of(const PreparedJob& job, size_t entry) const;
  void copy_in(const InputLayout::Copy& copy, int64_t shard, size_t input_slot);
  void put_rows(int64_t shard, size_t input_slot, size_t output_slot);
  void add_to_sums(int64_t shard, std::span<const uint8_t> wanted, size_t output_slot);
  void deliver(std::span<const CopyOut> deliveries, std::span<const uint8_t> wanted,
               size_t output_slot, int64_t shard = 0);
  void copy_to_host(const CopyOut& delivery, std::byte* to);
  bool is_parallel(size_t item) const;
  void launch_beside(const Item& item, size_t output_slot);
  void join_branch();
  void put_item(size_t item, std::span<const uint8_t> wanted, size_t output_slot);
  void finish_item(size_t item, std::span<const uint8_t> wanted, size_t output_slot);
  void load_updates();
  void take_made(const Item& item, size_t output_slot);
  void gather_variables(size_t output_slot);
  size_t timed_index(size_t item) const;
  std::vector<exec::TimedStep> list_timed_steps(const PreparedJob& job) const;
  size_t timed_end() const { return times_.steps().size() - 1; }

  Driver& driver_;
  const Stream stream_;
  const KeptColumns& columns_;
  const ProgramMemory& memory_;
  const int64_t shards_;
  const int64_t first_shard_, end_shard_;            // of this rank
  RankSums* const rank_sums_;                        // null: there is one rank
  const bool draws_in_passes_;                       // of a loop
  std::optional<ProgramFingerprints> fingerprints_;  // where it takes them
  bool takes_fingerprints_ = false;                  // in what is put
  OwnedStream copies_;
  OwnedEvent made_, outer_copied_, copied_;
  std::optional<OwnedStream> branch_;  // where steps are parallel
  OwnedEvent forked_, branched_;
  bool branching_ = false;                 // the branch has not joined
  std::vector<std::byte*> column_inputs_;  // by column
  std::vector<Item> items_;
  std::vector<size_t> item_of_;       // by step
  std::vector<size_t> part_ends_;     // the item behind the last of each part
  std::vector<size_t> piece_ends_;    // ... of each piece
  size_t shard_pieces_ = 0;           // the first of them
  std::vector<CopyOut> outer_;        // inputs and variables: before the first step
  std::vector<CopyOut> after_shard_;  // of each shard
  std::vector<CopyOut> combined_;     // after the last shard
  Sums sums_;
  std::vector<Bucket> buckets_;
  bool copying_ = false;        // the stream of copies has not joined the other
  bool outer_copying_ = false;  // and variables may not be written yet
  CallTimes times_;
};

}  // namespace flow::cuda
