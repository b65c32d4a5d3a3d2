// Groups steps and variables under the entries that they were made from, and computes totals. Equal
// copies and networks are recognized by their contents.
#include "cli/show/job_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "ops/core/known.h"
#include "ops/core/spec.h"
#include "runtime/plan/model/cost.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

size_t bytes_of_role(const plan::Job& job, plan::Role role) {
  size_t bytes = 0;
  for (const plan::Tensor& tensor : job.tensors)
    if (tensor.role == role) bytes += exec::whole_bytes_of(job, tensor);
  return bytes;
}

using plan::TensorId;

/// Returns the longest prefix of `name`, in whole components, that `names` contains, or an empty
/// text if there is none. The parts of a layer have one or two components more than the layer's
/// entry.
template <typename Names>
std::string_view nearest(std::string_view name, const Names& names) {
  constexpr int kMostParts = 8;
  name = name.substr(0, name.find(':'));
  for (int parts = 0; !names.contains(name); ++parts) {
    const size_t cut = name.rfind('/');
    if (cut == name.npos || parts == kMostParts) return {};
    name = name.substr(0, cut);
  }
  return name;
}

class TreeBuilder {
 public:
  TreeBuilder(const plan::Job& job, std::span<const WrittenEntry> written)
      : job_(job), maker_(job.tensors.size()) {
    for (const WrittenEntry& entry : written) written_.emplace(entry.name, &entry);
    tree_.entries.emplace_back().network = true;
  }

  JobTree run() {
    for (const plan::Input& input : job_.inputs) add_input(input.tensor);
    for (size_t i = 0; i < job_.steps.size(); ++i)
      if (const plan::Step& step = job_.steps[i]; !step.probe && !plan::is_backward(step))
        add_step(step, static_cast<double>(plan::runs_of(job_, plan::StepId(i))));
    const std::set<TensorId> statistics = moving_statistics(job_);
    for (const plan::Variable& variable : job_.variables)
      if (!variable.slot && !statistics.contains(variable.tensor))
        entries()[entry_of(job_[variable.tensor].name)].parameters +=
            static_cast<uint64_t>(job_[variable.tensor].shape.elements());
    for (const plan::Step& step : job_.steps)
      if (const size_t diff = step.name.find(":diff"); diff != std::string::npos)
        entries()[tree_.find(step.name)].gradient = true;
    sum_up();
    std::ranges::sort(tree_.flows);
    // std::ranges::unique does not compile with clang 14.
    tree_.flows.erase(std::unique(tree_.flows.begin(), tree_.flows.end()), tree_.flows.end());
    return std::move(tree_);
  }

 private:
  std::vector<Entry>& entries() { return tree_.entries; }

  void add_input(TensorId id) {
    const size_t entry = add(0, job_[id].name, "input", job_[id].where);
    tree_.by_path.emplace(job_[id].name, entry);
    entries()[entry].path = job_[id].name;
    entries()[entry].output = id;
    entries()[entry].device = job_.device_of(job_[id]);
    maker_[id.index()] = entry;
    tree_.inputs.push_back(entry);
  }

  size_t add(size_t parent, std::string name, std::string op, std::string where) {
    Entry entry;
    entry.name = std::move(name);
    entry.op = std::move(op);
    entry.where = std::move(where);
    entry.parent = parent;
    entry.depth = entries()[parent].depth + 1;
    entry.device = job_.device;
    entries()[parent].inside.push_back(entries().size());
    entries().push_back(std::move(entry));
    return entries().size() - 1;
  }

  /// Returns the written entry to which a step or variable of this name belongs, or 0 if there is
  /// none.
  size_t entry_of(std::string_view name) {
    name = nearest(name, written_);
    if (name.empty()) return 0;
    if (const auto made = tree_.by_path.find(name); made != tree_.by_path.end())
      return made->second;
    const size_t cut = name.rfind('/');
    const size_t parent = cut == name.npos ? 0 : entry_of(name.substr(0, cut));
    // If no network contains the entry, its full name is kept.
    const size_t shown = parent == 0 ? 0 : cut + 1;
    const WrittenEntry& written = *written_.find(name)->second;
    const size_t entry = add(parent, std::string(name.substr(shown)), written.op, written.where);
    entries()[entry].path = name;
    entries()[parent].network = true;
    entries()[entry].network = written.network;
    tree_.by_path.emplace(name, entry);
    return entry;
  }

  /// Adds a step. `runs` is the number of times that a call runs it.
  void add_step(const plan::Step& step, double runs) {
    for (const TensorId id : step.inputs) add_variable(id);
    size_t entry = entry_of(step.name);
    entries()[entry].flops += runs * plan::flops(job_, step);
    read(step.inputs, entry);
    for (const plan::EpilogueOp& fused : step.epilogue) {
      const size_t own = entry_of(fused.name);
      if (own == 0) continue;  // the fused op is an update
      if (own != entry) {
        flow(entry, own, step.outputs[0]);
        set_output(entry, step);
      } else if (fused.op->epilogue != ops::Epilogue::kBias) {
        entries()[own].op += " + " + fused.op.name();
      }
      entry = own;
      entries()[entry].flops += runs * plan::flops(job_, step, fused);
      read(fused.operands, entry);
    }
    if (step.name.find(':') == std::string::npos) {  // a cast or copy belongs to an existing result
      add_activation(step, entry);
      set_output(entry, step);
    }
    for (const TensorId id : step.outputs)
      if (id.valid()) maker_[id.index()] = entry;
  }

  /// Sets the output of a variable that is itself an entry, because no step computes it. The same
  /// applies to the state of a loop.
  void add_variable(TensorId id) {
    const plan::Tensor& tensor = job_[id];
    if (tensor.role != plan::Role::kVariable) return;
    const size_t entry = entry_of(tensor.name);
    const bool is_state = entry != 0 && tensor.name == entries()[entry].path + ":state";
    if ((is_state || entries()[entry].op == ops::kVariable->name) &&
        !entries()[entry].output.valid()) {
      entries()[entry].output = id;
      maker_[id.index()] = entry;
    }
  }

  /// Adds an activation to the op of its layer. The step of an activation is named after its op.
  void add_activation(const plan::Step& step, size_t entry) {
    if (entry == 0 || !entries()[entry].output.valid() || step.op == ops::kMatmul ||
        step.op->epilogue == ops::Epilogue::kBias)
      return;
    if (step.name.ends_with("/" + step.op.name()) &&
        step.name.size() > entries()[entry].path.size())
      entries()[entry].op += " + " + step.op.name();
  }

  void set_output(size_t entry, const plan::Step& step) {
    if (entry == 0 || step.outputs.empty() || !step.outputs[0].valid()) return;
    entries()[entry].output = step.outputs[0];
    entries()[entry].device = job_.device_of(step);
  }

  void read(const std::vector<TensorId>& operands, size_t reader) {
    for (const TensorId id : operands)
      if (const size_t maker = maker_[id.index()]; maker != 0 && maker != reader && reader != 0)
        flow(maker, reader, id);
  }

  /// Adds a flow. The tensor becomes the output of all networks that contain the maker but not the
  /// reader.
  void flow(size_t from, size_t to, TensorId tensor) {
    tree_.flows.push_back({from, to, tensor});
    size_t maker = entries()[from].parent, reader = to;
    while (entries()[reader].depth > entries()[maker].depth) reader = entries()[reader].parent;
    for (; maker != reader; maker = entries()[maker].parent) {
      entries()[maker].output = std::max(entries()[maker].output, tensor);
      if (entries()[reader].depth == entries()[maker].depth) reader = entries()[reader].parent;
    }
  }

  /// Adds the sums of each entry to the network that contains it.
  void sum_up() {
    for (size_t i = entries().size(); i-- > 1;) {
      Entry& entry = entries()[i];
      Entry& parent = entries()[entry.parent];
      if (!entry.output.valid() && !entry.inside.empty()) {
        entry.output = entries()[entry.inside.back()].output;
        entry.device = entries()[entry.inside.back()].device;
      }
      parent.parameters += entry.parameters;
      parent.flops += entry.flops;
      parent.gradient |= entry.gradient;
    }
  }

  const plan::Job& job_;
  std::map<std::string_view, const WrittenEntry*> written_;
  std::vector<size_t> maker_;  // indexed by tensor: the entry that computes it, or 0
  JobTree tree_;
};

bool is_copy(const Entry& entry) {
  return !entry.name.empty() &&
         std::ranges::all_of(entry.name, [](char c) { return c >= '0' && c <= '9'; });
}

size_t mixed(size_t hash, size_t more) { return (hash ^ more) * 0x9E3779B97F4A7C15u + (hash >> 7); }

class Folding {
 public:
  Folding(const JobTree& tree, const plan::Job& job, bool all)
      : tree_(tree), all_(all), kinds_(tree.entries.size()), sizes_(tree.entries.size()) {
    for (size_t i = tree.entries.size(); i-- > 0;) {
      const Entry& entry = tree.entries[i];
      kinds_[i] = std::hash<std::string>()(entry.op);
      if (!entry.network) kinds_[i] = mixed(kinds_[i], std::hash<std::string>()(entry.where));
      sizes_[i] = mixed(entry.parameters, static_cast<size_t>(entry.flops));
      if (entry.output.valid())
        sizes_[i] = mixed(sizes_[i], std::hash<std::string>()(job[entry.output].shape.str()));
      for (const size_t part : entry.inside) {
        const std::string& name = tree.entries[part].name;
        kinds_[i] = mixed(mixed(kinds_[i], kinds_[part]), std::hash<std::string>()(name));
        sizes_[i] = mixed(sizes_[i], sizes_[part]);
      }
    }
  }

  Folded run() { return folded(0, "", {0}); }

 private:
  Folded folded(size_t i, std::string name, std::vector<size_t> members) {
    Folded made{.entry = i, .name = std::move(name), .copies = members.size()};
    for (const size_t member : members) {
      made.parameters += tree_.entries[member].parameters;
      made.flops += tree_.entries[member].flops;
    }
    made.members = std::move(members);
    const std::vector<size_t>& inside = tree_.entries[i].inside;
    if (!all_ && i != 0 && !inside.empty()) {
      const auto [shown, first] = shown_.emplace(kinds_[i], made.name);
      if (!first) {
        made.shown_at = shown->second;
        return made;
      }
    }
    for (const size_t part : inside) add(part, made.inside);
    return made;
  }

  /// Adds an entry. Instead of a repeat, adds its copies, and combines equal neighboring ones.
  void add(size_t i, std::vector<Folded>& to) {
    const Entry& entry = tree_.entries[i];
    const auto copy = [&](size_t part) { return is_copy(tree_.entries[part]); };
    if (entry.inside.empty() || !std::ranges::all_of(entry.inside, copy)) {
      to.push_back(folded(i, entry.name, {i}));
      return;
    }
    const auto same = [&](size_t a, size_t b) {
      return !all_ && kinds_[a] == kinds_[b] && sizes_[a] == sizes_[b];
    };
    for (size_t first = 0; first < entry.inside.size();) {
      size_t end = first + 1;
      while (end < entry.inside.size() && same(entry.inside[first], entry.inside[end])) ++end;
      std::vector<size_t> members(entry.inside.begin() + static_cast<ptrdiff_t>(first),
                                  entry.inside.begin() + static_cast<ptrdiff_t>(end));
      const bool whole = members.size() == entry.inside.size();
      const size_t copy_entry = members.front();
      to.push_back(folded(copy_entry,
                          whole && (!all_ || members.size() == 1)
                              ? entry.name
                              : entry.name + "/" + tree_.entries[copy_entry].name,
                          std::move(members)));
      first = end;
    }
  }

  const JobTree& tree_;
  const bool all_;
  std::vector<size_t> kinds_, sizes_;  // indexed by entry: hashes of its contents and of its sizes
  std::map<size_t, std::string> shown_;  // the name under which a network of each kind is shown
};

}  // namespace

StepMemory::StepMemory(const plan::Job& job)
    : holdings(exec::list_holdings(
          job, exec::share_memory(job, [](plan::TensorId, plan::TensorId) { return true; }))),
      variables(bytes_of_role(job, plan::Role::kVariable)),
      inputs(bytes_of_role(job, plan::Role::kInput)) {
  std::vector<plan::Block> blocks;
  for (const exec::Holding& holding : holdings) blocks.push_back(holding.block);
  live = exec::live_bytes(blocks, job.steps.size());
  fullest = static_cast<size_t>(std::ranges::max_element(live) - live.begin());
  made.resize(job.steps.size());
  for (const exec::Holding& holding : holdings) made[holding.block.first].push_back(&holding);
}

std::vector<exec::Holding> StepMemory::at_peak() const {
  std::vector<exec::Holding> found;
  for (const exec::Holding& holding : holdings)
    if (holding.block.first <= fullest && fullest <= holding.block.last && holding.block.bytes > 0)
      found.push_back(holding);
  std::ranges::stable_sort(found, std::greater<>{},
                           [](const exec::Holding& holding) { return holding.block.bytes; });
  return found;
}

std::set<plan::TensorId> updated_variables(const plan::Job& job) {
  std::set<plan::TensorId> updated;
  for (const plan::Step& step : job.steps)
    for (const plan::TensorId id : step.outputs)
      if (id.valid() && !step.op->view) updated.insert(job[id].alias);
  return updated;
}

std::set<plan::TensorId> moving_statistics(const plan::Job& job) {
  std::set<plan::TensorId> found;
  for (const plan::Step& step : job.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.op->operand(i).statistic) found.insert(step.inputs[i]);
  return found;
}

JobTotals totals_of(const plan::Job& job) {
  JobTotals totals;
  const std::set<plan::TensorId> statistics = moving_statistics(job);
  const std::set<plan::TensorId> updated = updated_variables(job);
  for (const plan::Variable& variable : job.variables) {
    const plan::Tensor& tensor = job[variable.tensor];
    totals.checkpoint += exec::bytes_of(tensor);
    if (variable.slot) continue;
    const bool trained = job.train && variable.trainable && updated.contains(variable.tensor);
    uint64_t& sum = statistics.contains(variable.tensor) ? totals.statistics
                    : trained                            ? totals.trained
                                                         : totals.frozen;
    sum += static_cast<uint64_t>(tensor.shape.elements());
  }
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    if (step.probe) continue;
    double flops = plan::flops(job, step);
    for (const plan::EpilogueOp& fused : step.epilogue) flops += plan::flops(job, step, fused);
    (plan::is_backward(step) ? totals.backward : totals.forward) +=
        flops * static_cast<double>(plan::runs_of(job, plan::StepId(i)));
  }
  const StepMemory results(job);
  totals.memory = results.variables + results.inputs + results.peak();
  return totals;
}

size_t JobTree::find(std::string_view name) const {
  const std::string_view path = nearest(name, by_path);
  return path.empty() ? 0 : by_path.find(path)->second;
}

JobTree tree_of(const plan::Job& job, std::span<const WrittenEntry> written) {
  return TreeBuilder(job, written).run();
}

Folded fold(const JobTree& tree, const plan::Job& job, bool all) {
  return Folding(tree, job, all).run();
}

}  // namespace flow::cli
