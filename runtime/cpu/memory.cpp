// Sharing and placing the memory of one call.
#include "runtime/cpu/memory.h"

#include <algorithm>

#include "runtime/cpu/layout.h"
#include "runtime/plan/lifetimes.h"

namespace flow::cpu {
namespace {

using plan::Role;
using plan::TensorId;

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t bytes_of(const plan::Tensor& tensor) {
  return static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype);
}

constexpr size_t kNever = static_cast<size_t>(-1);

/// First and last step that uses something.
struct Use {
  size_t first = kNever, last = 0;
  void at(size_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
  bool any() const { return first != kNever; }
};

/// Calls f(tensor, step) for every tensor that a step touches.
template <typename F>
void for_each_use(const plan::Job& job, F f) {
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    for (TensorId id : step.inputs) f(id, i);
    for (TensorId id : step.outputs)
      if (id.valid()) f(id, i);
    for (const plan::Post& post : step.posts)
      for (TensorId id : post.operands) f(id, i);
  }
}

std::vector<Use> uses_of(const plan::Job& job, std::span<const TensorId> owners) {
  std::vector<Use> uses(job.tensors.size());
  for_each_use(job, [&](TensorId id, size_t step) { uses[owners[id.index()].index()].at(step); });
  return uses;
}

/// Decides the permissions, in step order: `uses` is kept by owner as memory is taken over.
class Sharing {
 public:
  Sharing(const plan::Job& job, std::span<const Layout> layouts) : job_(job), layouts_(layouts) {
    for (size_t i = 0; i < job.tensors.size(); ++i) owners_.push_back(TensorId{i});
    for (size_t i = 0; i < job.tensors.size(); ++i) {
      const TensorId root = plan::alias_root(job, TensorId{i});
      if (job[root].role == Role::kVariable && updates_variable(TensorId{i})) owners_[i] = root;
    }
    uses_ = uses_of(job, owners_);
  }

  std::vector<TensorId> decide() {
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      const plan::Step& step = job_.steps[i];
      for (TensorId id : step.outputs)
        if (id.valid() && may_share(step, i, id)) take_over(id, job_[id].alias);
    }
    return owners_;
  }

 private:
  /// An alias of a variable orders an update, but for a reshape of one, which only looks at it.
  bool updates_variable(TensorId id) const {
    for (const plan::Step& step : job_.steps)
      if (step.op == "reshape" && std::ranges::find(step.outputs, id) != step.outputs.end())
        return false;
    return job_[id].alias.valid();
  }

  bool may_share(const plan::Step& step, size_t at, TensorId id) const {
    const plan::Tensor& tensor = job_[id];
    if (!tensor.alias.valid() || owners_[id.index()] != id) return false;
    const TensorId source = tensor.alias, owner = owners_[source.index()];
    if (bytes_of(job_[source]) != bytes_of(tensor) || !same_layout(source, id)) return false;
    const bool view = step.op == "reshape";
    // What a view reads must not be written while the view lives.
    if (job_[owner].role == Role::kVariable) return view && !written_before(owner, id);
    if (job_[owner].role == Role::kInput) return view;
    return uses_[owner.index()].last == at;
  }

  /// Both in C order: what differs in layout, or keeps a layout under another shape, is copied.
  bool same_layout(TensorId a, TensorId b) const {
    const bool same = layouts_[a.index()] == layouts_[b.index()];
    return (is_plain(a) && is_plain(b)) || (same && job_[a].shape == job_[b].shape);
  }
  bool is_plain(TensorId id) const {
    return layouts_[id.index()] == Layout::kPlain || layouts_coincide(job_[id].shape);
  }

  bool written_before(TensorId variable, TensorId reader) const {
    for (size_t i = 0; i <= uses_[reader.index()].last && i < job_.steps.size(); ++i)
      for (TensorId id : job_.steps[i].outputs)
        if (id.valid() && owners_[id.index()] == variable && job_[id].role == Role::kResult &&
            job_.steps[i].op != "reshape")
          return true;
    return false;
  }

  void take_over(TensorId id, TensorId source) {
    const TensorId owner = owners_[source.index()];
    owners_[id.index()] = owner;
    uses_[owner.index()].at(uses_[id.index()].last);
  }

  const plan::Job& job_;
  std::span<const Layout> layouts_;
  std::vector<TensorId> owners_;
  std::vector<Use> uses_;
};

/// What lives at the step where most does, largest first.
void report_peak(const plan::Job& job, const std::vector<plan::Block>& blocks,
                 const std::vector<std::string>& names, exec::MemoryReport& report) {
  std::vector<size_t> begins(job.steps.size() + 1), ends(job.steps.size() + 1);
  for (const plan::Block& block : blocks) {
    begins[block.first] += block.bytes;
    ends[block.last + 1] += block.bytes;
  }
  size_t live = 0, peak = 0, at = 0;
  for (size_t i = 0; i < job.steps.size(); ++i) {
    live = live + begins[i] - ends[i];
    if (live > peak) peak = live, at = i;
  }
  if (peak == 0) return;
  report.peak_step = job.steps[at].name;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].first <= at && at <= blocks[i].last && blocks[i].bytes > 0)
      report.at_peak.push_back({names[i], blocks[i].bytes});
  std::ranges::stable_sort(report.at_peak, std::greater<>{}, &exec::MemoryReport::Holder::bytes);
}

}  // namespace

std::vector<TensorId> share_memory(const plan::Job& job, std::span<const Layout> layouts) {
  return Sharing(job, layouts).decide();
}

bool is_view(const plan::Step& step, std::span<const TensorId> owners) {
  return step.op == "reshape" && step.posts.empty() &&
         owners[step.inputs[0].index()] == owners[step.outputs[0].index()];
}

MemoryPlan plan_memory(const plan::Job& job, std::span<const TensorId> owners,
                       std::span<const size_t> workspaces) {
  MemoryPlan memory;
  memory.tensors.resize(job.tensors.size());
  const std::vector<Use> uses = uses_of(job, owners);
  std::vector<plan::Block> blocks;
  std::vector<std::string> names;
  std::vector<size_t> tensor_of;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    const plan::Tensor& tensor = job.tensors[i];
    const auto append = [&](Pool pool, size_t& end) {
      memory.tensors[i] = {pool, end};
      end += aligned(bytes_of(tensor));
    };
    if (tensor.role == Role::kVariable) {
      append(Pool::kVariables, memory.report.variables);
    } else if (tensor.role == Role::kInput) {
      append(Pool::kInputs, memory.report.inputs);
    } else if (owners[i] == TensorId{i} && uses[i].any()) {
      blocks.push_back({bytes_of(tensor), uses[i].first, uses[i].last});
      names.push_back(tensor.name);
      tensor_of.push_back(i);
    }
  }
  const size_t results = blocks.size();
  for (size_t i = 0; i < workspaces.size(); ++i) {
    blocks.push_back({workspaces[i], i, i});
    names.push_back("workspace of " + job.steps[i].name);
  }
  const plan::Assignment assignment = plan::assign_memory(blocks);
  for (size_t i = 0; i < results; ++i)
    memory.tensors[tensor_of[i]] = {Pool::kArena, assignment.offsets[i]};
  for (size_t i = 0; i < workspaces.size(); ++i)
    memory.workspaces.push_back(assignment.offsets[results + i]);
  for (size_t i = 0; i < job.tensors.size(); ++i)
    memory.tensors[i] = memory.tensors[owners[i].index()];
  memory.report.arena = assignment.bytes;
  report_peak(job, blocks, names, memory.report);
  return memory;
}

}  // namespace flow::cpu
