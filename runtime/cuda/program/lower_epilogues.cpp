// Passes from plan to plan that turn epilogue ops into steps and move updates to the end.
#include "runtime/cuda/program/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

/// Returns the number of leading epilogue ops of the step that its kernel accepts.
size_t fused_ops(const plan::Step& step) {
  const KernelEntry* kernel = find_kernel(step.op.name());
  if (!kernel || kernel->epilogue == TakesEpilogue::kNone) return 0;
  size_t fused = 0;
  for (const auto epilogue : {ops::Epilogue::kBias, ops::Epilogue::kRelu})
    if (fused < step.epilogue.size() && step.epilogue[fused].op->epilogue == epilogue) ++fused;
  return fused;
}

bool is_cast(const plan::EpilogueOp& epilogue_op) {
  return epilogue_op.op->epilogue == ops::Epilogue::kCast;
}

bool contains(const std::vector<TensorId>& ids, TensorId id) {
  return std::ranges::find(ids, id) != ids.end();
}

class EpilogueLowering {
 public:
  explicit EpilogueLowering(const plan::Job& job) : job_(job) {}

  plan::Job expand() {
    rewrite_steps(job_, [&](plan::Step step, size_t) { expand(std::move(step)); });
    plan::assign_lifetimes(job_);
    return std::move(job_);
  }

 private:
  void expand(plan::Step step) {
    const auto kept = static_cast<std::ptrdiff_t>(fused_ops(step));
    std::vector<plan::EpilogueOp> apart(step.epilogue.begin() + kept, step.epilogue.end());
    step.epilogue.resize(static_cast<size_t>(kept));
    DType running_dtype = dtype_before(apart, step.outputs[0]);
    if (const auto low_precision = low_precision_result(step)) {
      running_dtype = *low_precision;
      round_bias(step, *low_precision);
      if (!apart.empty() && is_cast(apart.front()))
        apart.erase(apart.begin());
      else
        apart.insert(apart.begin(), cast(step.name, plan::compute_dtype_of(job_.precision)));
    }
    if (apart.empty()) return job_.steps.push_back(std::move(step));
    const TensorId result = step.outputs[0];
    const TensorId taken = std::exchange(job_.tensors[result.index()].alias, TensorId());
    const plan::Step origin = step;
    TensorId running = add_tensor(step.name, result, running_dtype,
                                  contains(step.inputs, taken) ? taken : TensorId());
    step.outputs[0] = running;
    job_.steps.push_back(std::move(step));
    for (size_t i = 0; i < apart.size(); ++i) {
      const std::span<const plan::EpilogueOp> rest = std::span(apart).subspan(i + 1);
      const TensorId out =
          rest.empty() ? result
                       : add_tensor(apart[i].name, result, dtype_before(rest, result), TensorId());
      job_.tensors[out.index()].alias = place_of(apart[i], running, taken);
      add_step(origin, apart[i], running, out);
      running = out;
    }
  }

  /// Returns the dtype of the tensor that these epilogue ops turn into `result`.
  DType dtype_before(std::span<const plan::EpilogueOp> epilogue, TensorId result) const {
    return std::ranges::any_of(epilogue, is_cast) ? plan::compute_dtype_of(job_.precision)
                                                  : job_[result].dtype;
  }

  /// Returns the 16-bit dtype in which cuDNN stores the result of a convolution of 16-bit operands.
  std::optional<DType> low_precision_result(const plan::Step& step) const {
    if (!step.op->convolves()) return {};
    const DType dtype = job_[step.inputs[0]].dtype;
    return is_low_precision(dtype) ? std::optional(dtype) : std::nullopt;
  }

  static plan::EpilogueOp cast(const std::string& name, DType dtype) {
    plan::EpilogueOp epilogue_op{"cast", fmt::format("{}:{}", name, name_of(dtype)), {}, {}};
    epilogue_op.attributes.set("dtype", dtype);
    return epilogue_op;
  }

  /// Rounds the bias, because cuDNN adds a bias of the result's dtype.
  void round_bias(plan::Step& step, DType low_precision) {
    if (step.epilogue.empty() || step.epilogue.front().op->epilogue != ops::Epilogue::kBias) return;
    TensorId& bias = step.epilogue.front().operands[0];
    const plan::EpilogueOp epilogue_op = cast(step.name + "/bias", low_precision);
    const TensorId rounded = add_tensor(epilogue_op.name, bias, low_precision, TensorId());
    add_step(step, epilogue_op, bias, rounded);
    bias = rounded;
  }

  /// Returns the tensor that the result of an epilogue op aliases: the variable that it updates or,
  /// if it may overwrite it, the running value.
  static TensorId place_of(const plan::EpilogueOp& epilogue_op, TensorId running, TensorId taken) {
    if (taken.valid() && contains(epilogue_op.operands, taken)) return taken;
    const bool in_place = !is_cast(epilogue_op) && epilogue_op.op->may_overwrite(0);
    return in_place ? running : TensorId();
  }

  TensorId add_tensor(const std::string& name, TensorId like, DType dtype, TensorId alias) {
    plan::Tensor tensor = job_[like];
    tensor.name = name;
    tensor.dtype = dtype;
    const TensorId made = add_result(job_, std::move(tensor));
    job_.tensors[made.index()].alias = alias;
    return made;
  }

  void add_step(const plan::Step& origin, const plan::EpilogueOp& epilogue_op, TensorId running,
                TensorId out) {
    plan::Step step = make_step(origin, epilogue_op.op, epilogue_op.name, running, out);
    step.inputs.insert(step.inputs.end(), epilogue_op.operands.begin(), epilogue_op.operands.end());
    step.attributes = epilogue_op.attributes;
    step.probe = origin.probe;
    job_.steps.push_back(std::move(step));
  }

  plan::Job job_;
};

bool is_update(const plan::Step& step) {
  const KernelEntry* kernel = find_kernel(step.op.name());
  return kernel && kernel->prepare_updates;
}

/// Returns the distance of each step from the end, for updates that may be moved there. It is 1 if
/// no step reads the results of the update, 2 if only updates of distance 1 read them, and 0 for
/// all other steps.
std::vector<int> distances_from_end(const plan::Job& job) {
  std::vector<std::vector<size_t>> readers(job.tensors.size());
  for (size_t i = 0; i < job.steps.size(); ++i)
    plan::visit_operands(job.steps[i], [&](TensorId id) { readers[id.index()].push_back(i); });
  const std::vector<TensorId> roots = plan::alias_roots(job);
  // Indexed by tensor: variables that steps before the end write.
  std::vector<bool> written(job.tensors.size());
  std::vector<int> distances(job.steps.size());
  for (size_t i = job.steps.size(); i-- > 0;) {
    const plan::Step& step = job.steps[i];
    distances[i] = is_update(step) ? 1 : 0;
    for (const TensorId id : step.outputs) {
      if (!id.valid()) continue;
      for (const size_t reader : readers[id.index()])
        distances[i] = distances[i] > 0 && distances[reader] == 1 ? 2 : 0;
    }
    // A variable must not be written before a step at the end reads it.
    if (std::ranges::any_of(step.inputs, [&](TensorId id) {
          return written[id.index()] && job[id].role == plan::Role::kVariable;
        }))
      distances[i] = 0;
    if (distances[i] > 0) continue;
    for (const TensorId id : step.outputs)
      if (id.valid() && id != roots[id.index()]) written[roots[id.index()].index()] = true;
  }
  return distances;
}

bool launch_as_one(const plan::Step& a, const plan::Step& b) {
  return a.op == b.op && a.attributes == b.attributes && a.inputs.size() == b.inputs.size();
}

}  // namespace

plan::Job lower_epilogues(const plan::Job& job) { return EpilogueLowering(job).expand(); }

Grouped group_updates(const plan::Job& job) {
  const std::vector<int> distances = distances_from_end(job);
  Grouped made{job, {}};
  std::vector<plan::Step>& steps = made.job.steps;
  steps.clear();
  // The updates that are moved, grouped. Those in the second element read results of the first.
  std::array<std::vector<std::vector<plan::Step>>, 2> groups;
  // Indexed by tensor: true for results of updates in the first element of `groups`.
  std::vector<bool> moved(job.tensors.size());
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    if (distances[i] == 0) {
      if (is_update(step)) made.updates.push_back({steps.size(), steps.size() + 1});
      steps.push_back(step);
      continue;
    }
    if (distances[i] == 2)
      for (const TensorId id : step.outputs)
        if (id.valid()) moved[id.index()] = true;
    const bool behind =
        std::ranges::any_of(step.inputs, [&](TensorId id) { return moved[id.index()]; });
    auto& some = groups[behind ? 1 : 0];
    const auto group = std::ranges::find_if(
        some, [&](const auto& members) { return launch_as_one(members.front(), step); });
    if (group == some.end())
      some.push_back({step});
    else
      group->push_back(step);
  }
  for (const auto& some : groups)
    for (const std::vector<plan::Step>& group : some) {
      made.updates.push_back({steps.size(), steps.size() + group.size()});
      steps.insert(steps.end(), group.begin(), group.end());
    }
  plan::assign_lifetimes(made.job);
  return made;
}

namespace {

std::vector<size_t> segments_of(const plan::Job& job, std::span<const size_t> ends,
                                const plan::Job& made) {
  std::vector<size_t> segments(made.steps.size());
  if (ends.size() < 2) return segments;
  std::unordered_map<std::string_view, size_t> segment_of;
  for (size_t i = 0, segment = 0; i < job.steps.size(); ++i) {
    while (ends[segment] <= i) ++segment;
    segment_of[job.steps[i].name] = segment;
  }
  // Passes derive the names of the steps that they add from the names of other steps, as in
  // "conv1:flip".
  const auto find_segment = [&](std::string_view name) -> size_t {
    for (;;) {
      if (const auto found = segment_of.find(name); found != segment_of.end()) return found->second;
      const size_t end = name.rfind(':');
      if (end == name.npos) return 0;
      name = name.substr(0, end);
    }
  };
  for (size_t i = 0; i < segments.size(); ++i)
    segments[i] = std::max(i > 0 ? segments[i - 1] : 0, find_segment(made.steps[i].name));
  return segments;
}

}  // namespace

std::vector<size_t> parts_of(const plan::Job& job, std::span<const size_t> ends,
                             const plan::Job& made) {
  if (!made.sharding) return segments_of(job, ends, made);
  std::vector<size_t> parts(made.steps.size(), 1);
  std::fill_n(parts.begin(), made.sharding->steps.index(), 0);
  return parts;
}

}  // namespace flow::cuda
