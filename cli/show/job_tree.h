// A job as its author sees it: entries in networks, with what each takes, and as a reader needs
// them once: equal copies and networks together.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/source/source.h"
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

}  // namespace flow::cli
