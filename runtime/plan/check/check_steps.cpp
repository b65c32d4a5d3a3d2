// Checks the steps of a job: types, order, devices, fused epilogue ops, and what is written in
// place.
#include <algorithm>
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/check.h"

namespace flow::plan {
namespace {

/// Returns true if kernels of the op support this sequence of epilogue ops. An update must be the
/// only op of an epilogue.
bool can_be_fused(const ops::OpSpec& op, std::span<const EpilogueOp> epilogue) {
  auto last = ops::Epilogue::kNone;
  for (const EpilogueOp& fused : epilogue) {
    const auto next = fused.op.spec() ? fused.op->epilogue : ops::Epilogue::kNone;
    if (next <= last || !op.can_take(next)) return false;
    if (next == ops::Epilogue::kUpdate && epilogue.size() > 1) return false;
    last = next;
  }
  return true;
}

/// An update of a variable by a step: the operand and the result. Optimizers update trained
/// variables and their slots; layers update the statistics that they keep of batches.
struct Update {
  enum class Of { kTrained, kSlot, kStatistics };
  TensorId variable, updated;
  Of of = Of::kTrained;
};

class StepCheck {
 public:
  StepCheck(const Job& job, const Location& location)
      : job_(job),
        location_(location),
        types_(types_of(job)),
        maker_(job.tensors.size(), nullptr),
        readable_(job.tensors.size()),
        updated_(job.tensors.size()),
        in_variable_(job.tensors.size()),
        variables_(job.tensors.size(), nullptr) {
    for (size_t i = 0; i < job.tensors.size(); ++i) {
      readable_[i] = job.tensors[i].role != Role::kResult;
      in_variable_[i] = job.tensors[i].role == Role::kVariable;
    }
    for (const Variable& variable : job.variables) variables_[variable.tensor.index()] = &variable;
    is_state_.resize(job.tensors.size());
    if (!job.loop) return;
    for (const TensorId id : job.loop->states) {
      is_state_[id.index()] = true;
      readable_[id.index()] = false;  // it can be read once it has been set
    }
  }

  void run() {
    std::set<std::string_view> names;
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      const Step& step = job_.steps[i];
      const Location here = location_.at("step", step.name);
      begin_part(StepId(i));
      here.require(is_safe_name(step.name), "invalid name");
      here.require(names.insert(step.name).second, "duplicate name");
      check_device(step.device, here);
      check_reads(step, here);
      check_types(step, here);
      check_origin(step, here);
      check_outputs(step, here);
    }
    begin_part(StepId(job_.steps.size()));
    for (size_t i = 0; i < job_.tensors.size(); ++i) {
      const Location here = location_.at("tensor", job_.tensors[i].name);
      here.require(readable_[i], "no step computes this result");
      check_device(job_.tensors[i].device, here);
    }
  }

 private:
  /// At the end of a part of a loop, checks that the part has set each state exactly once.
  void begin_part(StepId step) {
    if (!job_.loop || (step != job_.loop->first && step != job_.loop->end)) return;
    in_pass_ = step == job_.loop->first;
    for (const TensorId id : job_.loop->states) {
      const Location here = location_.at("state", job_[id].name);
      here.require(updated_[id.index()], "is not set {}",
                   in_pass_ ? "before the loop" : "by a pass");
      updated_[id.index()] = false;
      readable_[id.index()] = true;
    }
    if (const TensorId until = job_.loop->until; !in_pass_ && until.valid())
      location_.at("loop", job_[until].name)
          .require(made_in_pass_.contains(until), "does not come from a pass");
    if (!in_pass_) passed_ = true;
  }

  void check_device(const std::optional<DeviceKind>& device, const Location& location) const {
    location.require(device != job_.device, "repeats the device of the job");
  }

  void check_read(const Step& step, TensorId id, const Location& location) const {
    const Tensor& tensor = job_[id];
    const bool here = job_.device_of(tensor) == job_.device_of(step);
    const bool copies = step.op.spec() && step.op->between_devices;
    location.require(here != copies, "`{}` is on {} device", tensor.name,
                     here ? "the same" : "another");
    location.require(readable_[id.index()], "reads `{}` before it is computed", tensor.name);
    location.require(!updated_[id.index()], "reads `{}` after its update", tensor.name);
    const Step* maker = maker_[id.index()];
    location.require(step.probe || !maker || !maker->probe, "reads `{}`, the result of a tap",
                     tensor.name);
  }

  void check_reads(const Step& step, const Location& location) const {
    for (const TensorId id : step.inputs) check_read(step, id, location);
    for (const EpilogueOp& fused : step.epilogue)
      for (const TensorId id : fused.operands) check_read(step, id, location);
  }

  void check_types(const Step& step, const Location& location) const {
    const ops::OpSpec& spec = spec_of(step.op, location);
    std::vector<ops::Operand> operands;
    for (const TensorId id : step.inputs) operands.push_back(operand_of(job_[id]));
    std::vector<ops::Result> results =
        check_call(spec, std::move(operands), step.attributes, types_, location);
    location.require(step.outputs.size() == results.size(), "{} results; {} has {}",
                     step.outputs.size(), step.op.name(), results.size());
    results[0].dtype = dtype_after_epilogue(step, results[0].dtype);
    results[0].batch_axis = check_epilogue(step, results[0], location);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!step.outputs[i].valid()) {
        location.require(spec.may_be_absent(i), "result {} must be a tensor", i);
        continue;
      }
      const Tensor& made = job_[step.outputs[i]];
      const auto& [dtype, shape, batch_axis, combine] = results[i];
      location.require(made.dtype == dtype && made.shape == shape,
                       "result `{}` is {} {}; expected {} {}", made.name, name_of(made.dtype),
                       made.shape.str(), name_of(dtype), shape.str());
      location.require(step.per_shard || made.batch_axis == batch_axis,
                       "result `{}` has batch axis {}; expected {}", made.name, made.batch_axis,
                       batch_axis);
    }
  }

  /// All ops that can be fused keep dtype and shape, except for a cast, which must be the last one.
  static DType dtype_after_epilogue(const Step& step, DType dtype) {
    const bool cast = !step.epilogue.empty() && step.epilogue.back().op.spec() &&
                      step.epilogue.back().op->epilogue == ops::Epilogue::kCast;
    const Attribute* to = cast ? step.epilogue.back().attributes.find("dtype") : nullptr;
    return to && std::holds_alternative<DType>(*to) ? std::get<DType>(*to) : dtype;
  }

  /// Returns the batch axis of the step's first result after its epilogue.
  int check_epilogue(const Step& step, const ops::Result& result, const Location& location) const {
    if (step.epilogue.empty()) return result.batch_axis;
    location.require(can_be_fused(*step.op, step.epilogue), "cannot fuse its epilogue onto {}",
                     step.op.name());
    int batch_axis = result.batch_axis;
    for (const EpilogueOp& fused : step.epilogue) {
      location.require(is_safe_name(fused.name), "invalid name `{}` in the epilogue", fused.name);
      std::vector<ops::Operand> operands{{types_.compute, result.shape, batch_axis}};
      for (const TensorId id : fused.operands) operands.push_back(operand_of(job_[id]));
      const ops::OpSpec& spec = spec_of(fused.op, location);
      batch_axis = check_call(spec, std::move(operands), fused.attributes, types_, location)
                       .front()
                       .batch_axis;
      if (spec.epilogue == ops::Epilogue::kCast)
        location.require(fused.attributes.get<DType>("dtype") == types_.low_precision,
                         "cannot cast a fused product to {}",
                         name_of(fused.attributes.get<DType>("dtype")));
      location.require(!spec.result(0).updates || fused.operands.size() == 1,
                       "fused {} takes only the variable", fused.op.name());
    }
    return batch_axis;
  }

  /// Checks that a second result is read only by the gradient op of the step that made it, because
  /// kernels trust its content.
  void check_origin(const Step& step, const Location& location) const {
    const auto& origin = step.op->origin;
    if (!origin) return;
    const TensorId read = step.inputs[origin->operand];
    const Step* maker = maker_[read.index()];
    const bool comes_from = maker && maker->op.name() == origin->op && maker->outputs[1] == read &&
                            (!origin->same_operand || maker->inputs[0] == step.inputs[0]) &&
                            (!origin->matches || origin->matches(step.attributes, maker->attributes,
                                                                 job_[maker->inputs[0]].shape));
    location.require(comes_from, "`{}` does not come from {}", job_[read].name, origin->expected);
  }

  void check_outputs(const Step& step, const Location& location) {
    const std::vector<Update> updates = updates_of(step);
    for (const TensorId id : step.outputs) {
      if (!id.valid()) continue;
      const Tensor& tensor = job_[id];
      location.require(tensor.role == Role::kResult && !maker_[id.index()],
                       "writes `{}`, which is not a result or is already computed", tensor.name);
      location.require(job_.device_of(tensor) == job_.device_of(step),
                       "result `{}` is on another device", tensor.name);
      maker_[id.index()] = &step;
      if (in_pass_ && !step.probe) made_in_pass_.insert(id);
      if (std::ranges::find(updates, id, &Update::updated) == updates.end())
        check_in_place(step, id, location);
    }
    for (const Update& update : updates) check_update(step, update, location);
    for (const TensorId id : step.outputs)
      if (id.valid()) readable_[id.index()] = true;
  }

  /// Returns the variables that the step overwrites. A fused update writes its result onto its
  /// operand.
  std::vector<Update> updates_of(const Step& step) const {
    using Of = Update::Of;
    if (step.op->moves_statistics()) return moves_of(step);
    std::vector<Update> updates;
    const ops::OpSpec& spec = *step.op;
    for (size_t i = 0; i < step.outputs.size(); ++i)
      if (const auto operand = spec.result(i).updates)
        updates.push_back({step.inputs[*operand], step.outputs[i],
                           spec.operand(*operand).name == "variable" ? Of::kTrained : Of::kSlot});
    if (!step.epilogue.empty() && step.epilogue.back().op->result(0).updates)
      updates.push_back({step.epilogue.back().operands[0], step.outputs[0], Of::kTrained});
    return updates;
  }

  /// If several calls move the same statistics, the last call updates the variables. The others
  /// pass the moved values on.
  std::vector<Update> moves_of(const Step& step) const {
    std::vector<Update> moves;
    for (size_t i = 0; i < step.outputs.size(); ++i)
      if (const TensorId alias = job_[step.outputs[i]].alias; alias.valid())
        moves.push_back({first_moved(moved_by(step, i)), step.outputs[i], Update::Of::kStatistics});
    return moves;
  }

  /// Returns the variable from which a chain of moves has led to this tensor.
  TensorId first_moved(TensorId id) const {
    for (const Step* maker = maker_[id.index()]; maker && maker->op->moves_statistics();
         maker = maker_[id.index()])
      id = moved_by(*maker, maker->outputs[0] == id ? 0 : 1);
    return id;
  }

  static TensorId moved_by(const Step& step, size_t result) {
    return step.inputs[*step.op->result(result).moves];
  }

  bool may_update(const Variable& variable, Update::Of of) const {
    if (of == Update::Of::kSlot) return variable.slot;
    return !variable.slot && variable.trainable == (of == Update::Of::kTrained);
  }

  void check_update(const Step& step, const Update& update, const Location& location) {
    const Tensor& tensor = job_[update.variable];
    const Variable* variable = variables_[update.variable.index()];
    location.require(job_.train && !step.probe, "only train jobs update variables");
    constexpr std::string_view kKinds[] = {"trainable variable", "slot of the optimizer",
                                           "statistic of a layer"};
    location.require(variable && may_update(*variable, update.of),
                     "updates `{}`, which is not a {}", tensor.name,
                     kKinds[static_cast<size_t>(update.of)]);
    location.require(job_[update.updated].alias == update.variable,
                     "the update of `{}` must be in place", tensor.name);
    const bool reads_it = !step.epilogue.empty() &&
                          std::ranges::find(step.inputs, update.variable) != step.inputs.end();
    location.require(!reads_it && !updated_[update.variable.index()],
                     "`{}` is updated twice, or while it is read", tensor.name);
    updated_[update.variable.index()] = true;
    in_variable_[update.updated.index()] = true;
  }

  /// Checks that the result is the next value of the state, and that no later step reads the old
  /// value.
  void check_state(const Step& step, TensorId id, const Location& location) {
    const Tensor& tensor = job_[id];
    const TensorId state = tensor.alias;
    bool overwrites = true;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      overwrites = overwrites && (step.inputs[i] != state || step.op->may_overwrite(i));
    for (const EpilogueOp& fused : step.epilogue)
      overwrites = overwrites && std::ranges::find(fused.operands, state) == fused.operands.end();
    location.require(overwrites && !passed_ && !step.probe && id == step.outputs[0] &&
                         tensor.shape == job_[state].shape && !updated_[state.index()],
                     "`{}` cannot be the next value of `{}`", tensor.name, job_[state].name);
    updated_[state.index()] = true;
    in_variable_[id.index()] = true;
  }

  /// Checks that the result overwrites the updated value of a trained variable, and that no later
  /// step reads that value.
  void check_replacement(const Step& step, const Location& location) {
    const TensorId id = step.outputs[0], old = step.inputs[*step.op->result(0).replaces];
    const auto is_trained = [&](const Update& update) {
      return update.updated == old && update.of == Update::Of::kTrained;
    };
    const Step* maker = maker_[old.index()];
    location.require(maker && std::ranges::any_of(updates_of(*maker), is_trained),
                     "replaces `{}`, which is not the updated value of a trained variable",
                     job_[old].name);
    location.require(!step.probe && step.epilogue.empty() && job_[id].alias == old &&
                         std::ranges::count(step.inputs, old) == 1,
                     "the replacement of `{}` must be in place", job_[old].name);
    updated_[old.index()] = true;
    in_variable_[id.index()] = true;
  }

  /// Checks that a permission to work in place is given only for operands that the op reads element
  /// by element.
  void check_in_place(const Step& step, TensorId id, const Location& location) {
    const Tensor& tensor = job_[id];
    if (step.op->result(0).replaces) return check_replacement(step, location);
    if (!tensor.alias.valid()) return;
    const bool looks_at = step.op->view && step.inputs[0] == tensor.alias;
    if (is_state_[tensor.alias.index()] && !looks_at) return check_state(step, id, location);
    bool allowed = false;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      allowed = allowed || (step.inputs[i] == tensor.alias && step.op->may_overwrite(i));
    const bool view = step.op->view;
    const bool alone = std::ranges::all_of(
        step.epilogue, [](const EpilogueOp& fused) { return fused.operands.empty(); });
    allowed = allowed && id == step.outputs[0] && alone &&
              (view || tensor.shape == job_[tensor.alias].shape);
    // The operand whose memory is taken over is made before this step. Hence each chain of aliases
    // ends.
    const bool allowed_here = allowed && (view || !in_variable_[tensor.alias.index()]);
    location.require(allowed_here, "`{}` cannot reuse the memory of `{}`", tensor.name,
                     job_[tensor.alias].name);
    in_variable_[id.index()] = in_variable_[tensor.alias.index()];
  }

  const Job& job_;
  const Location& location_;
  const ops::JobTypes types_;
  std::vector<const Step*> maker_;  // indexed by TensorId; null until a step makes the tensor
  std::vector<bool> readable_;      // indexed by TensorId; true for all tensors made so far
  std::vector<bool> updated_;       // indexed by TensorId; true for variables updated so far
  std::vector<bool> in_variable_;   // indexed by TensorId; true if stored in a variable
  std::vector<const Variable*> variables_;  // indexed by TensorId
  std::vector<bool> is_state_;              // indexed by TensorId; true for a state of the loop
  std::set<TensorId> made_in_pass_;
  bool in_pass_ = false, passed_ = false;  // the current step is in a pass, or after the last one
};

}  // namespace

void check_steps(const Job& job, const Location& location) { StepCheck(job, location).run(); }

}  // namespace flow::plan
