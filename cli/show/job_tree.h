// A job as its author sees it: a tree of entries in networks with their costs, a folded form that
// shows equal copies and networks only once, and the totals and memory of the whole job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/source/source.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// An entry of a graph: an op, or a network with the entries inside it.
struct Entry {
  std::string name;       // the name in its network: "conv1"; "0", "1" for the copies of a repeat
  std::string path;       // the full name: "lenet/conv1"
  std::string op;         // "conv2d + relu", or the name of the network if it is known
  std::string where;      // "jobs/lenet.yaml:25:20"
  bool network = false;   // true for a network or a repeat
  size_t parent = 0;      // index in JobTree::entries
  size_t depth = 0;       // 0 for the job itself
  plan::TensorId output;  // invalid if a call computes no output
  plan::DeviceKind device = plan::DeviceKind::kCpu;
  uint64_t parameters = 0;     // of all entries inside it; shared ones count at their owner
  double flops = 0;            // of a step's forward pass, including all entries inside it
  bool gradient = false;       // true if a call computes gradients of it or of its variables
  std::vector<size_t> inside;  // in the order of execution
};

/// The flow of a result from one entry to another entry that reads it. Both entries are ops.
struct Flow {
  size_t from = 0, to = 0;
  plan::TensorId tensor;
  friend auto operator<=>(const Flow&, const Flow&) = default;
};

struct JobTree {
  std::vector<Entry> entries;  // each after its parent; the first one is the job
  std::vector<size_t> inputs;  // entries that are the job's inputs, in order
  std::vector<Flow> flows;     // sorted and unique
  std::map<std::string, size_t, std::less<>> by_path;

  /// Returns the entry that computes a tensor of this name or owns a variable of this name, or 0 if
  /// there is none.
  size_t find(std::string_view name) const;
};

/// Reconstructs the entries of the job file from which a plan was made, as far as the plan shows
/// them: "lenet/conv1" and "lenet" from the steps "lenet/conv1/conv" and so on. A plan does not
/// contain the names of the networks that entries call. Layers are recognized by their steps.
std::vector<WrittenEntry> entries_of_plan(const plan::Job& job);

/// Builds the tree of a job. `written` contains the job's entries, from the compiler or from
/// entries_of_plan. Entries that a call does not compute, such as dropout in a predict job, are
/// left out.
JobTree tree_of(const plan::Job& job, std::span<const WrittenEntry> written);

/// One line of a table, or one box of a picture.
struct Folded {
  size_t entry = 0;           // the index in the tree; for equal copies, the first one
  std::string name = {};      // "stage1", "blocks/1"
  size_t copies = 1;          // the number of equal neighbors, each of which reads the previous one
  std::string shown_at = {};  // where the same network with other sizes is shown in full
  uint64_t parameters = 0;    // of all copies
  double flops = 0;           // of all copies
  std::vector<size_t> members = {};  // the entries that this line or box represents
  std::vector<Folded> inside = {};
};

/// Returns the job with its entries inside. With `all`, nothing is combined.
Folded fold(const JobTree& tree, const plan::Job& job, bool all);

struct JobTotals {
  uint64_t trained = 0, frozen = 0;  // numbers of parameters without optimizer slots
  uint64_t statistics = 0;           // the number of moving averages of batch normalization
  double forward = 0,
         backward = 0;      // FLOPs of a step without probes; `backward` includes updates
  uint64_t memory = 0;      // bytes at the peak, counted as in show_memory
  uint64_t checkpoint = 0;  // bytes of the arrays in a checkpoint
};

/// Returns the variables that a call changes.
std::set<plan::TensorId> updated_variables(const plan::Job& job);

/// Returns the variables that contain moving averages of batch normalization.
std::set<plan::TensorId> moving_statistics(const plan::Job& job);

JobTotals totals_of(const plan::Job& job);

/// The memory of a call's results: when each result is live, and the total at each step.
struct StepMemory {
  explicit StepMemory(const plan::Job& job);
  size_t peak() const { return live.empty() ? 0 : live[fullest]; }
  /// Returns the results that are live at the fullest step, the largest first.
  std::vector<exec::Holding> at_peak() const;

  std::vector<exec::Holding> holdings;
  std::vector<std::vector<const exec::Holding*>> made;  // indexed by step
  std::vector<size_t> live;                             // indexed by step, in bytes
  size_t fullest = 0;                                   // the step with the most live bytes
  size_t variables = 0, inputs = 0;  // bytes that are occupied during the whole call
};

}  // namespace flow::cli
