// A job as its author sees it: entries in networks, with what each takes, and as a reader needs
// them once: equal copies and networks together. What it takes as a whole, and holds in memory.
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

/// An entry of a graph: an op, or a network with the entries in it.
struct Entry {
  std::string name;       // in its network: "conv1"; the copies of a repeat: "0", "1"
  std::string path;       // its full name: "lenet/conv1"
  std::string op;         // "conv2d + relu", or the network's name where it is known
  std::string where;      // "jobs/lenet.yaml:25:20"
  bool network = false;   // or a repeat
  size_t parent = 0;      // index in JobTree::entries
  size_t depth = 0;       // 0: the job itself
  plan::TensorId output;  // invalid where a call computes none
  plan::DeviceKind device = plan::DeviceKind::kCpu;
  uint64_t parameters = 0;     // of all entries in it, shared ones at their owner
  double flops = 0;            // of a step's forward pass, of all entries in it
  bool gradient = false;       // a call computes gradients of it or of its variables
  std::vector<size_t> inside;  // in the order of execution
};

/// From one entry's result to another entry, which reads it; both are ops.
struct Flow {
  size_t from = 0, to = 0;
  plan::TensorId tensor;
  friend auto operator<=>(const Flow&, const Flow&) = default;
};

struct JobTree {
  std::vector<Entry> entries;  // each after its parent; 0 is the job
  std::vector<size_t> inputs;  // entries that are the job's inputs, in order
  std::vector<Flow> flows;     // sorted, each once
  std::map<std::string, size_t, std::less<>> by_path;

  /// The entry that computes a tensor of that name, or has a variable of it; 0 where none does.
  size_t find(std::string_view name) const;
};

/// The entries of a job file that a plan was made from, as far as the plan shows them:
/// "lenet/conv1" and "lenet" of the steps "lenet/conv1/conv" and so on. The networks that entries
/// call have no names in a plan; layers are recognized by their steps.
std::vector<WrittenEntry> entries_of_plan(const plan::Job& job);

/// `written`: the job's entries, from the compiler or from entries_of_plan. Entries that a call
/// does not compute, such as dropout in a predict job, are left out.
JobTree tree_of(const plan::Job& job, std::span<const WrittenEntry> written);

/// One line of a table, or one box of a picture.
struct Folded {
  size_t entry = 0;           // in the tree; of equal copies, the first
  std::string name = {};      // "stage1", "blocks/1"
  size_t copies = 1;          // equal ones in a row, each reading the one before
  std::string shown_at = {};  // the same network with other sizes, where its entries are shown
  uint64_t parameters = 0;    // of all copies
  double flops = 0;           // of all copies
  std::vector<size_t> members = {};  // the entries that it stands for
  std::vector<Folded> inside = {};
};

/// The job itself, with its entries inside. `all`: nothing is put together.
Folded fold(const JobTree& tree, const plan::Job& job, bool all);

struct JobTotals {
  uint64_t trained = 0, frozen = 0;  // parameters, without the optimizer's own
  uint64_t statistics = 0;           // moving averages of batch normalization
  double forward = 0,
         backward = 0;      // FLOPs of a step in which no probe runs; backward: and updates
  uint64_t memory = 0;      // bytes at the peak, as show_memory counts them
  uint64_t checkpoint = 0;  // bytes of the arrays in it
};

/// Variables that a call changes.
std::set<plan::TensorId> updated_variables(const plan::Job& job);

/// Variables that have moving averages of batch normalization.
std::set<plan::TensorId> moving_statistics(const plan::Job& job);

JobTotals totals_of(const plan::Job& job);

/// A call's results: who lives when, and how much that is at each step.
struct StepMemory {
  explicit StepMemory(const plan::Job& job);
  size_t peak() const { return live.empty() ? 0 : live[fullest]; }
  /// Results that live at the fullest step, the largest first.
  std::vector<exec::Holding> at_peak() const;

  std::vector<exec::Holding> holdings;
  std::vector<std::vector<const exec::Holding*>> made;  // by step
  std::vector<size_t> live;                             // by step: bytes
  size_t fullest = 0;                                   // step
  size_t variables = 0, inputs = 0;                     // bytes, during the whole call
};

}  // namespace flow::cli
