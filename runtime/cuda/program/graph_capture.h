// Puts the work of one call into the streams in order, directly or while a graph is captured. Also
// measures the time of its steps with events between them.
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

/// The times of a call's steps. Marks are ignored if there are no timed steps.
class CallTimes {
 public:
  /// The driver outlives this object.
  CallTimes(Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}

  /// Starts taking times. `marks` is the largest number of marks in a call.
  void take(std::vector<exec::TimedStep> steps, size_t marks, size_t output_slots);
  const std::vector<exec::TimedStep>& steps() const { return steps_; }

  void begin(size_t output_slot);
  /// Attributes the work that was put since the previous mark to a timed step.
  void mark(size_t output_slot, size_t step);
  /// Returns times as in Program::step_times. REQUIRES: The call is complete; it began at `begin`.
  void read(size_t output_slot, int64_t begin, std::span<int64_t> times) const;

 private:
  struct Marks {
    std::vector<OwnedEvent> reached;  // the start of a call, followed by the marks in `ended`
    std::vector<size_t> ended;        // the timed steps of the last call's marks
  };

  Driver& driver_;
  const Stream stream_;
  std::vector<exec::TimedStep> steps_;
  std::vector<Marks> marks_;  // indexed by output slot
};

/// The prepared steps of a job and the places of their tensors. A part of a call is the content of
/// a graph: a segment or, if the batch is cut into shards, first the steps of one shard and then
/// the steps that run once.
struct PreparedJob {
  const Grouped& grouped;
  BoundKernels bound = {};
  std::vector<plan::TensorId> owners = {};  // indexed by tensor: the tensor whose memory it uses
  std::vector<exec::Place> places = {};     // indexed by tensor
  std::vector<size_t> workspaces = {};      // indexed by step: the offset in the arena
  std::vector<exec::SharedVariable> shared = {};
  std::span<const exec::TransferredTensor>
      transferred;            // tensors that pass through host memory, to or from another device
  std::vector<size_t> parts;  // indexed by step: the part in which it runs
  size_t part_count = 1;
  Constants constants = {};
  // Indexed by step: true if it runs in parallel with the step before it.
  std::vector<uint8_t> parallel = {};
  SumPlan sums = {};
  size_t sums_offset = 0;  // offset in the arena
  // This rank's shards are [first_shard, end_shard) if several ranks run the job.
  int64_t first_shard = 0, end_shard = 1;
  exec::Division division = {};
  RankPlan rank_sums = {};
  size_t rank_sums_offset = 0;  // offset in the arena
  Versions versions = {};
  exec::FingerprintPlan fingerprints = {};  // empty if no fingerprints are taken
  size_t fingerprints_offset = 0;           // offset in the arena
};

/// Puts the work of calls into streams. Copies to the host use a separate stream and run in
/// parallel with the kernels after them. The second of two parallel steps also uses a separate
/// stream, unless times are taken.
class GraphCapture {
 public:
  /// Borrows the driver, the columns and the memory. `rank_sums` is null if one rank has all
  /// shards.
  GraphCapture(Driver& driver, Stream stream, const PreparedJob& job, const KeptColumns& columns,
               const ProgramMemory& memory, std::span<const plan::TensorId> deliverables,
               RankSums* rank_sums);

  /// Returns the number of the job's parts plus the number of pieces. Several ranks put the steps
  /// of their last shard, and the steps after all shards, in pieces. A piece ends where ranks
  /// exchange data: a complete bucket, or sums within a step.
  size_t parts() const { return part_ends_.size() + piece_ends_.size(); }
  size_t pieces() const { return piece_ends_.size(); }
  size_t shard_pieces() const { return shard_pieces_; }

  /// Sets whether the work that is put afterwards takes fingerprints. REQUIRES: The job was
  /// prepared for fingerprints.
  void take_fingerprints(bool take) { takes_fingerprints_ = take; }

  /// Puts a part of a call. `wanted` states for each deliverable whether it is delivered. Without
  /// shards, the work before the first step belongs to the first part.
  void put(size_t part, std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot);

  // The following functions surround the parts of a call in shards. The parts may be graphs, but
  // the work that these functions put is never captured.
  /// Puts the work before the first shard.
  void begin(std::span<const uint8_t> wanted, size_t input_slot, size_t output_slot);
  void begin_shard(int64_t shard, size_t input_slot, size_t output_slot);
  /// Puts the work after a piece. After a piece of the last shard, it exchanges the buckets that
  /// the piece completes. After a piece of the other steps, it gathers sums; after the last piece,
  /// it gathers variables.
  void end_piece(size_t piece, std::span<const uint8_t> wanted, size_t output_slot);
  /// Delivers the results of the shard and adds them to the sums.
  void end_shard(int64_t shard, std::span<const uint8_t> wanted, size_t output_slot);
  /// Makes the stream wait until the copies to the host are complete.
  void join_copies();

  /// Computes the constants that calls only read. REQUIRES: Called before the first call.
  void put_constants();
  /// Runs each step once. Graphs then exclude the setup that libraries do at first use, and a step
  /// that cannot run is an error with its line and name. The results are lost. The kernels of steps
  /// that write variables are only loaded.
  void rehearse(const PreparedJob& job);
  /// Returns the seconds that the fingerprints of a call take by the device's clock. Loads their
  /// kernels, which is not possible during a capture. REQUIRES: Nothing has been captured yet.
  double time_fingerprints();
  /// Makes the items of later calls leave events between them. REQUIRES: Calls are not captured.
  void take_times(const PreparedJob& job, size_t output_slots);
  const CallTimes& times() const { return times_; }
  /// Takes the stream of copies out of a capture after a put that failed.
  void abandon();

 private:
  struct Operands {
    std::vector<std::byte*> inputs, outputs;
    std::vector<std::vector<std::byte*>> epilogue;
    std::vector<std::span<std::byte* const>> epilogue_spans;
    std::byte* workspace;
  };
  struct CopyOut {
    size_t index;  // the index of the deliverable
    std::byte* from;
    size_t offset;  // offset in an output slot
    RowCopy rows;
    size_t per_shard = 0;  // bytes in an output slot; if 0, only the first shard's data is copied
  };
  /// A step, or updates that are launched together.
  struct Item {
    LaunchUpdates launch;  // empty if there is nothing to do
    LaunchUpdates finish;  // runs after a gather
    // The number of its gather in RankSums. The gather splits the item, and a piece ends there.
    std::optional<size_t> gather;
    std::vector<Operands> operands;
    std::vector<Buffers> buffers;         // views of `operands`
    size_t first = 0, end = 0;            // the steps
    bool updates = false, probe = false;  // updates: the item writes variables
    bool parallel = false;                // the item runs in parallel with the item before it
    bool constant = false;                // the item runs only before the first call
    std::vector<size_t> wanted_by;        // the deliverables that need a probe
    std::vector<CopyOut> deliveries;

    bool runs(std::span<const uint8_t> wanted) const;
  };
  /// The sums over shards. Those of tensors that every call makes are launched together.
  struct Sums {
    std::vector<ShardPart> always, of_probes;
    std::vector<size_t> probes;  // the items that make the elements of `of_probes`
  };
  /// With several ranks, the results of the last shard that belong to one bucket.
  struct Bucket {
    std::vector<ShardPart> parts;
    size_t item;   // the item that makes the last of them
    size_t piece;  // the piece that ends with that item
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
  const int64_t first_shard_, end_shard_;  // the shards of this rank
  RankSums* const rank_sums_;              // null if there is one rank
  // True if the passes of a loop draw random numbers.
  const bool draws_in_passes_;
  std::optional<ProgramFingerprints> fingerprints_;  // set if the job takes fingerprints
  bool takes_fingerprints_ = false;                  // true if the work that is put takes them
  OwnedStream copies_;
  OwnedEvent made_, outer_copied_, copied_;
  std::optional<OwnedStream> branch_;  // set if there are parallel steps
  OwnedEvent forked_, branched_;
  bool branching_ = false;                 // true if the branch has not joined yet
  std::vector<std::byte*> column_inputs_;  // indexed by column
  std::vector<Item> items_;
  std::vector<size_t> item_of_;       // indexed by step
  std::vector<size_t> part_ends_;     // the item after the last one of each part
  std::vector<size_t> piece_ends_;    // the item after the last one of each piece
  size_t shard_pieces_ = 0;           // the number of pieces of the last shard, which come first
  std::vector<CopyOut> outer_;        // inputs and variables, delivered before the first step
  std::vector<CopyOut> after_shard_;  // delivered after each shard
  std::vector<CopyOut> combined_;     // delivered after the last shard
  Sums sums_;
  std::vector<Bucket> buckets_;
  bool copying_ = false;        // true if the stream of copies has not joined the main stream yet
  bool outer_copying_ = false;  // true if variables must not be written yet
  CallTimes times_;
};

}  // namespace flow::cuda
