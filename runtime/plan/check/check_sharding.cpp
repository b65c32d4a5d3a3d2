// Checks the shards of a job: their number, the steps that they run, and that each shard can run
// these steps on its rows.
#include <algorithm>
#include <bit>
#include <string_view>
#include <variant>

#include "runtime/plan/check/check.h"
#include "runtime/plan/model/enum_names.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {
namespace {

bool updates_variables(const ops::OpSpec& op) {
  return std::ranges::any_of(
      op.results, [](const ops::ResultSpec& result) { return result.updates || result.moves; });
}

class LayoutCheck {
 public:
  LayoutCheck(const Job& job, const Location& location)
      : job_(job), location_(location), types_(types_of(job)), layouts_(job.tensors.size()) {}

  void run() {
    for (size_t i = 0; i < job_.tensors.size(); ++i) add_outer(TensorId(i));
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      const Location here = location_.at("step", job_.steps[i].name);
      if (StepId(i) < job_.sharding->steps)
        add_shard_step(job_.steps[i], here);
      else
        add_whole_step(job_.steps[i], here);
    }
    for (size_t i = 0; i < job_.tensors.size(); ++i) check_combine(TensorId(i));
    check_delivered();
  }

 private:
  using Kind = ShardLayout::Kind;

  /// A tensor that a step reads. The first operand of an epilogue op is the running value.
  struct Read {
    ops::Operand type;
    ShardLayout layout;
    std::string_view name;
  };

  Location at(TensorId id) const { return location_.at("tensor", job_[id].name); }
  ShardLayout& layout(TensorId id) { return layouts_[id.index()]; }
  const ShardLayout& layout(TensorId id) const { return layouts_[id.index()]; }

  void add_outer(TensorId id) {
    const Tensor& tensor = job_[id];
    at(id).require(tensor.role != Role::kVariable || tensor.batch_axis < 0,
                   "a variable has no batch axis");
    at(id).require(tensor.role != Role::kInput || tensor.batch_axis <= 0,
                   "batch axis {} of an input of shards; expected 0", tensor.batch_axis);
    if (tensor.role == Role::kInput && tensor.batch_axis == 0) layout(id) = {Kind::kSplit};
  }

  void add_whole_step(const Step& step, const Location& location) {
    location.require(!step.per_shard, "per shard, behind the shards");
    for (const TensorId id : step.inputs) check_whole(id, location);
    for (const EpilogueOp& fused : step.epilogue)
      for (const TensorId id : fused.operands) check_whole(id, location);
    for (const TensorId id : step.outputs)
      if (id.valid()) layout(id) = {Kind::kWhole};
  }

  /// Checks a tensor that is used after the steps of the shards. It must be neither split into rows
  /// or parts nor separate on each shard.
  void check_whole(TensorId id, const Location& location) const {
    location.require(layout(id).kind != Kind::kSplit, "reads rows of `{}` behind the shards",
                     job_[id].name);
    check_combined(id, location);
  }

  void check_combined(TensorId id, const Location& location) const {
    location.require(layout(id).kind != Kind::kPartial || job_[id].combine,
                     "reads `{}`, whose parts are not combined", job_[id].name);
    location.require(layout(id).kind != Kind::kOwn, "reads `{}`, which differs between shards",
                     job_[id].name);
  }

  void add_shard_step(const Step& step, const Location& location) {
    location.require(!updates_variables(*step.op), "updates variables on each shard");
    if (step.per_shard) return add_per_shard_step(step, location);
    std::vector<Read> reads;
    add_reads(step.inputs, reads);
    std::vector<ops::Result> results = infer(*step.op, reads, step.attributes, location);
    for (size_t i = 0; i < results.size(); ++i)
      if (const TensorId made = step.outputs[i]; made.valid())
        layout(made) = layout_of(*step.op, reads, results[i], location);
    for (const EpilogueOp& fused : step.epilogue)
      add_epilogue(fused, step.outputs[0], results[0], location);
  }

  /// Checks a step of separate values for each shard. Its results may be joined along any axis, or
  /// combined in any way.
  void add_per_shard_step(const Step& step, const Location& location) {
    for (const EpilogueOp& fused : step.epilogue)
      location.require(!updates_variables(*fused.op), "updates variables on each shard");
    for (const TensorId id : step.outputs) {
      if (!id.valid()) continue;
      const Tensor& made = job_[id];
      location.require(made.batch_axis != kNoBatch, "`{}` does not depend on the batch", made.name);
      location.require(made.combine != Combine::kNone, "`{}` has parts without a sum", made.name);
      layout(id) = layout_per_shard(made.batch_axis, made.combine);
    }
  }

  void add_epilogue(const EpilogueOp& fused, TensorId made, ops::Result& running,
                    const Location& location) {
    location.require(!updates_variables(*fused.op), "updates variables on each shard");
    std::vector<Read> reads{
        {{types_.compute, running.shape, running.batch_axis}, layout(made), job_[made].name}};
    add_reads(fused.operands, reads);
    const ops::Result result = infer(*fused.op, reads, fused.attributes, location).front();
    layout(made) = layout_of(*fused.op, reads, result, location);
    running.batch_axis = result.batch_axis;
  }

  void add_reads(const std::vector<TensorId>& ids, std::vector<Read>& reads) const {
    for (const TensorId id : ids)
      reads.push_back({operand_of(job_[id]), layout(id), job_[id].name});
  }

  std::vector<ops::Result> infer(const ops::OpSpec& op, const std::vector<Read>& reads,
                                 const Attributes& attributes, const Location& location) const {
    std::vector<ops::Operand> operands;
    for (const Read& read : reads) operands.push_back(read.type);
    return check_call(op, std::move(operands), attributes, types_, location);
  }

  static ShardLayout layout_of(const ops::OpSpec& op, const std::vector<Read>& reads,
                               const ops::Result& result, const Location& location) {
    std::vector<ShardLayout> operands;
    for (const Read& read : reads) operands.push_back(read.layout);
    const auto found = layout_of_result(op, operands, result);
    if (const auto* fault = std::get_if<LayoutFault>(&found)) refuse(op, *fault, reads, location);
    return std::get<ShardLayout>(found);
  }

  [[noreturn]] static void refuse(const ops::OpSpec& op, const LayoutFault& fault,
                                  const std::vector<Read>& reads, const Location& location) {
    if (fault.kind == LayoutFault::Kind::kMixesRows)
      location.refuse(fmt::format("{} of shards cannot be combined", op.name));
    location.refuse(
        fmt::format("{} of shards cannot read `{}`", op.name, reads[fault.operand].name));
  }

  void check_combine(TensorId id) const {
    const Tensor& tensor = job_[id];
    if (!tensor.combine) return;
    at(id).require(layout(id).kind == Kind::kPartial, "shards do not make parts of it");
    at(id).require(layout(id).combine == tensor.combine, "combines parts by {}; expected {}",
                   enum_name(*tensor.combine), enum_name(layout(id).combine));
  }

  void check_delivered() const {
    for (const Hook& hook : job_.hooks)
      check_delivered(hook.tensor, hook.per_device, location_.at("hook", hook.name));
    if (job_.returns)
      check_returned(job_.returns->value, location_.at("return", job_.returns->type));
    if (job_.optimizer)
      visit_tensors(*job_.optimizer, [this](TensorId id) {
        check_combined(id, location_.at("optimizer", job_.optimizer->type));
      });
  }

  /// Checks a delivered tensor. If `in_parts` is set, one array per shard is delivered.
  void check_delivered(TensorId id, bool in_parts, const Location& location) const {
    if (!in_parts || layout(id).kind != Kind::kOwn) check_combined(id, location);
  }

  void check_returned(const ReturnValue& value, const Location& location) const {
    if (value.is_leaf())
      check_delivered(value.tensor, value.kind == ReturnValue::Kind::kListNumpy, location);
    for (const ReturnValue& item : value.items) check_returned(item, location);
  }

  const Job& job_;
  const Location& location_;
  const ops::JobTypes types_;
  std::vector<ShardLayout> layouts_;  // indexed by TensorId
};

void check_devices(const Job& job, const Location& location) {
  location.require(job.devices >= 1 && job.devices <= kMaxDevices, "{} devices", job.devices);
  for (const Tensor& tensor : job.tensors)
    location.at("tensor", tensor.name).require(!tensor.combine, "parts to combine, without shards");
  for (const Step& step : job.steps)
    location.at("step", step.name).require(!step.per_shard, "per shard, without shards");
}

/// Checks the named devices. Each of them gets the same number of shards.
void check_named_devices(const Job& job, const Location& location) {
  for (const auto& [machine, first, last] : job.ids)
    location.require(machine >= 0 && first >= 0 && first <= last && last < kMaxDevices,
                     "devices {}:{}-{}", machine, first, last);
  const size_t named = devices_of(job.ids).size();
  location.require(named == 0 || job.devices % static_cast<int64_t>(named) == 0,
                   "{} named devices for {} shards", named, job.devices);
  location.require(!device_named_twice(job.ids), "a device named twice");
}

}  // namespace

void check_sharding(const Job& job, const Location& location) {
  check_named_devices(job, location);
  if (!job.sharding) return check_devices(job, location);
  const auto& [count, steps] = *job.sharding;
  location.require(
      count >= 2 && count <= kMaxShards && std::has_single_bit(static_cast<uint64_t>(count)),
      "{} shards; expected a power of two from 2 to {}", count, kMaxShards);
  location.require(steps.valid() && steps.index() <= job.steps.size(),
                   "{} steps of shards; the job has {}", steps.value, job.steps.size());
  location.require(job.devices == count, "{} devices for {} shards", job.devices, count);
}

void check_layouts(const Job& job, const Location& location) { LayoutCheck(job, location).run(); }

}  // namespace flow::plan
