// Shares and places the memory of one call, and finds the steps that run only for deliverables.
#include "runtime/exec/core/memory.h"
#include "runtime/exec/core/kernel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "ops/core/spec.h"
#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {
namespace {

using plan::Role;
using plan::TensorId;

constexpr size_t kUnused = static_cast<size_t>(-1);

/// The first and the last step that use a block of memory.
struct Use {
  size_t first = kUnused, last = 0;
  void at(size_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
  bool any() const { return first != kUnused; }
};

/// Calls f(tensor, step) for every tensor that a step reads or writes.
template <typename F>
void for_each_use(const plan::Job& job, F f) {
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    plan::visit_operands(step, [&](TensorId id) { f(id, i); });
    for (TensorId id : step.outputs)
      if (id.valid()) f(id, i);
  }
}

/// Returns the use of each owner's memory. Kept tensors are used until after the last step, and
/// parts of shards until after the last step of each shard.
std::vector<Use> uses_of(const plan::Job& job, std::span<const TensorId> owners,
                         std::span<const TensorId> kept) {
  std::vector<Use> uses(job.tensors.size());
  const auto use = [&](TensorId id, size_t step) { uses[owners[id.index()].index()].at(step); };
  for_each_use(job, use);
  for (TensorId id : kept) use(id, job.steps.size());
  for (size_t i = 0; i < job.tensors.size(); ++i)
    if (job.tensors[i].combine) use(TensorId(i), job.sharding->steps.index());
  return uses;
}

/// Decides in step order which permitted reuses of memory happen. `uses_` is indexed by owner and
/// is updated when memory is taken over.
class Sharing {
 public:
  Sharing(const plan::Job& job, const LieAlike& lie_alike, std::span<const TensorId> kept)
      : job_(job), lie_alike_(lie_alike) {
    for (size_t i = 0; i < job.tensors.size(); ++i) owners_.push_back(TensorId{i});
    // An alias of a variable means an update in place, except for a reshape, which only views it.
    const std::vector<TensorId> roots = plan::alias_roots(job);
    const auto looks_at = [&](const plan::Step& step, TensorId id) {
      return step.op->view && job[id].alias == step.inputs[0];
    };
    for (const plan::Step& step : job.steps)
      for (const TensorId id : step.outputs)
        if (id.valid() && job[id].alias.valid() && !looks_at(step, id) &&
            job[roots[id.index()]].role == Role::kVariable)
          owners_[id.index()] = roots[id.index()];
    uses_ = uses_of(job, owners_, kept);
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
  bool may_share(const plan::Step& step, size_t at, TensorId id) const {
    const plan::Tensor& tensor = job_[id];
    if (!tensor.alias.valid() || owners_[id.index()] != id) return false;
    const TensorId source = tensor.alias, owner = owners_[source.index()];
    if (bytes_of(job_[source]) != bytes_of(tensor) || !lie_alike_(source, id)) return false;
    const bool view = step.op->view && step.epilogue.empty();
    // The memory that a view reads must not be written while the view is in use.
    if (job_[owner].role == Role::kVariable) return view && !written_while(owner, id, at);
    if (job_[owner].role == Role::kInput) return view;
    // A view writes nothing. A step that writes in place must be the last one to use the memory
    // that it overwrites, including views of it.
    return view || uses_[owner.index()].last == at;
  }

  /// Returns true if a step writes the variable after the step that makes the view and before the
  /// last step that reads the view.
  bool written_while(TensorId variable, TensorId view, size_t made) const {
    for (size_t i = made + 1; i <= uses_[view.index()].last && i < job_.steps.size(); ++i)
      for (TensorId id : job_.steps[i].outputs)
        if (id.valid() && owners_[id.index()] == variable && job_[id].role == Role::kResult &&
            !is_view(job_.steps[i], owners_))
          return true;
    return false;
  }

  void take_over(TensorId id, TensorId source) {
    const TensorId owner = owners_[source.index()];
    owners_[id.index()] = owner;
    uses_[owner.index()].at(uses_[id.index()].last);
  }

  const plan::Job& job_;
  const LieAlike& lie_alike_;
  std::vector<TensorId> owners_;
  std::vector<Use> uses_;
};

/// Assigns places to the tensors that are not in the arena.
void place_outside(const MemoryRequest& request, MemoryPlan& memory) {
  const plan::Job& job = request.job;
  for (size_t i = 0; i < request.shared.size(); ++i)
    memory.tensors[request.shared[i].tensor.index()] = {Pool::kShared, i};
  for (size_t i = 0; i < request.transferred.size(); ++i)
    memory.tensors[request.transferred[i].tensor.index()] = {Pool::kTransferred, i};
  std::vector<size_t> sizes;
  for (const plan::Tensor& tensor : job.tensors) sizes.push_back(whole_bytes_of(job, tensor));
  for (const VariableSlice& slice : request.slices) sizes[slice.variable.index()] = slice.bytes;
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    const plan::Tensor& tensor = job.tensors[i];
    const auto append = [&](Pool pool, size_t& end) {
      memory.tensors[i] = {pool, end};
      end += round_up(sizes[i], request.alignment);
    };
    if (memory.tensors[i].pool != Pool::kNone) continue;
    if (tensor.role == Role::kInput) append(Pool::kInputs, memory.report.inputs);
    if (tensor.role == Role::kVariable) append(Pool::kVariables, memory.report.variables);
  }
}

/// Reports the tensors in memory at the step that uses most of it, largest first.
void report_peak(const plan::Job& job, const std::vector<plan::Block>& blocks,
                 const std::vector<std::string>& names, MemoryReport& report) {
  const std::vector<size_t> live = live_bytes(blocks, job.steps.size());
  const auto fullest = std::ranges::max_element(live);
  if (fullest == live.end() || *fullest == 0) return;
  const auto at = static_cast<size_t>(fullest - live.begin());
  report.peak_step = job.steps[at].name;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].first <= at && at <= blocks[i].last && blocks[i].bytes > 0)
      report.at_peak.push_back({names[i], blocks[i].bytes});
  std::ranges::stable_sort(report.at_peak, std::greater<>{}, &MemoryReport::Holder::bytes);
}

/// Extends the use of a block to both of two steps that run at the same time.
void widen(std::span<const uint8_t> parallel, plan::Block& block) {
  if (parallel.empty()) return;
  if (parallel[block.first]) --block.first;
  if (block.last + 1 < parallel.size() && parallel[block.last + 1]) ++block.last;
}

RunError too_large(const plan::Job& job, size_t needed, size_t available, std::string_view kind,
                   const std::string& largest) {
  return RunError(fmt::format("{}: job `{}` needs {} of {}; {} available; largest: {}", job.where,
                              job.name, human_bytes(needed), kind, human_bytes(available), largest),
                  "use a smaller batch");
}

}  // namespace

size_t bytes_of(const plan::Tensor& tensor) { return bytes_of(tensor.shape, tensor.dtype); }

size_t whole_bytes_of(const plan::Job& job, const plan::Tensor& tensor) {
  return bytes_of(plan::whole_shape(job, tensor), tensor.dtype);
}

std::vector<TensorId> share_memory(const plan::Job& job, const LieAlike& lie_alike,
                                   std::span<const TensorId> kept) {
  return Sharing(job, lie_alike, kept).decide();
}

const TensorInfo& variable_of(std::span<const TensorInfo> tensors, TensorId id, size_t bytes) {
  const TensorInfo& tensor = tensors[id.index()];
  const Pool pool = tensor.place.pool;
  FLOW_CHECK((pool == Pool::kVariables || pool == Pool::kShared) && tensor.bytes() == bytes,
             "variable {}", id.value);
  return tensor;
}

const TensorInfo& variable_of(std::span<const TensorInfo> tensors, TensorId id,
                              const ArrayView& value) {
  const TensorInfo& tensor = variable_of(tensors, id, value.bytes());
  FLOW_CHECK(value.dtype == tensor.dtype && value.shape == tensor.shape, "variable {}", id.value);
  return tensor;
}

bool is_view(const plan::Step& step, std::span<const TensorId> owners) {
  return step.op->view && step.epilogue.empty() &&
         owners[step.inputs[0].index()] == owners[step.outputs[0].index()];
}

std::vector<SharedVariable> shared_variables(const plan::Job& job,
                                             std::span<const VariableSource> variable_sources) {
  std::vector<SharedVariable> shared;
  const auto find = [&](TensorId id) -> std::optional<SharedVariable> {
    for (const VariableSource& source : variable_sources)
      for (const plan::Variable& variable : source.job->variables)
        if ((*source.job)[variable.tensor].name == job[id].name)
          return SharedVariable{id, &source.program->holder(), variable.tensor};
    return std::nullopt;
  };
  for (const plan::Variable& variable : job.variables)
    if (const auto found = find(variable.tensor)) shared.push_back(*found);
  return shared;
}

std::vector<Holding> list_holdings(const plan::Job& job, std::span<const TensorId> owners,
                                   std::span<const TensorId> kept) {
  const std::vector<Use> uses = uses_of(job, owners, kept);
  std::vector<Holding> holdings;
  for (size_t i = 0; i < job.tensors.size(); ++i)
    if (job.tensors[i].role == Role::kResult && owners[i] == TensorId{i} && uses[i].any())
      holdings.push_back({TensorId{i},
                          {bytes_of(job.tensors[i]), uses[i].first,
                           std::min(uses[i].last, job.steps.size() - 1)}});
  return holdings;
}

std::vector<size_t> live_bytes(std::span<const plan::Block> blocks, size_t steps) {
  std::vector<size_t> begins(steps + 1), ends(steps + 1), live(steps);
  for (const plan::Block& block : blocks) {
    begins[block.first] += block.bytes;
    ends[block.last + 1] += block.bytes;
  }
  for (size_t i = 0; i < steps; ++i) live[i] = (i > 0 ? live[i - 1] : 0) + begins[i] - ends[i];
  return live;
}

MemoryPlan plan_memory(const MemoryRequest& request) {
  const plan::Job& job = request.job;
  MemoryPlan memory;
  memory.tensors.resize(job.tensors.size());
  place_outside(request, memory);
  std::vector<Holding> holdings = list_holdings(job, request.owners, request.kept);
  std::erase_if(holdings, [&](const Holding& holding) {
    return memory.tensors[holding.tensor.index()].pool == Pool::kTransferred;
  });
  std::vector<plan::Block> blocks;
  std::vector<std::string> names;
  for (const Holding& holding : holdings) {
    blocks.push_back(holding.block);
    if (std::ranges::count(request.constants, holding.tensor) > 0) blocks.back().first = 0;
    names.push_back(job[holding.tensor].name);
  }
  for (size_t i = 0; i < request.workspaces.size(); ++i) {
    blocks.push_back({request.workspaces[i], i, i});
    names.push_back("workspace of " + job.steps[i].name);
  }
  for (plan::Block& block : blocks) widen(request.parallel, block);
  report_peak(job, blocks, names, memory.report);
  for (plan::Block& block : blocks) block.bytes = round_up(block.bytes, request.alignment);
  const plan::Assignment assignment = plan::assign_memory(blocks);
  for (size_t i = 0; i < holdings.size(); ++i)
    memory.tensors[holdings[i].tensor.index()] = {Pool::kArena, assignment.offsets[i]};
  for (size_t i = 0; i < request.workspaces.size(); ++i)
    memory.workspaces.push_back(assignment.offsets[holdings.size() + i]);
  for (size_t i = 0; i < job.tensors.size(); ++i)
    memory.tensors[i] = memory.tensors[request.owners[i].index()];
  memory.report.arena = assignment.bytes;
  return memory;
}

void check_tensors_fit(const plan::Job& job, size_t available, std::string_view kind) {
  const auto check = [&](const plan::Tensor& tensor, size_t bytes) {
    if (bytes > available) throw too_large(job, bytes, available, kind, "`" + tensor.name + "`");
  };
  for (const plan::Tensor& tensor : job.tensors)
    if (tensor.role != plan::Role::kResult) check(tensor, whole_bytes_of(job, tensor));
  // Results that no step makes belong to another device.
  for (const plan::Step& step : job.steps)
    for (const plan::TensorId id : step.outputs)
      if (id.valid()) check(job[id], bytes_of(job[id]));
}

void check_memory_fits(const plan::Job& job, size_t needed, const MemoryReport& report,
                       size_t available, std::string_view kind) {
  if (needed <= available) return;
  std::vector<std::string> largest;
  for (const MemoryReport::Holder& holder : report.at_peak) {
    if (largest.size() == 3) break;
    largest.push_back(fmt::format("`{}` {}", holder.name, human_bytes(holder.bytes)));
  }
  throw too_large(job, needed, available, kind, join(largest, ", "));
}

std::vector<std::vector<size_t>> readers_of_probes(const plan::Job& job,
                                                   std::span<const plan::TensorId> deliverables,
                                                   std::span<const TransferredTensor> transferred) {
  std::vector<std::vector<size_t>> needed_by(job.tensors.size()), probes(job.steps.size());
  for (size_t i = 0; i < deliverables.size(); ++i)
    if (deliverables[i].valid()) needed_by[deliverables[i].index()].push_back(i);
  for (const TransferredTensor& tensor : transferred)
    needed_by[tensor.tensor.index()] = tensor.wanted_by;
  for (size_t i = job.steps.size(); i-- > 0;) {
    const plan::Step& step = job.steps[i];
    if (!step.probe) continue;
    std::vector<size_t>& readers = probes[i];
    for (plan::TensorId id : step.outputs) {
      if (!id.valid()) continue;
      const std::vector<size_t>& more = needed_by[id.index()];
      readers.insert(readers.end(), more.begin(), more.end());
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    plan::visit_operands(step, [&](plan::TensorId id) {
      needed_by[id.index()].insert(needed_by[id.index()].end(), readers.begin(), readers.end());
    });
  }
  return probes;
}

double delivered_scalar(const Program& program, plan::TensorId tensor, size_t slot) {
  const std::span<const std::byte> bytes = program.delivered(tensor, slot);
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, bytes.data(), sizeof value);
    return static_cast<double>(value);
  };
  return bytes.size() == sizeof(double) ? read(double{}) : read(float{});
}

RunError at_step(const plan::Step& step, const RunError& error) {
  return error.at(fmt::format("{}: step `{}`", step.where, step.name));
}

}  // namespace flow::exec
