// Checks a plan before anything is allocated for it. This file contains the order of the checks,
// the places in messages, the check of calls against the records of ops, and the checks of ids, of
// tensors, and of the loop of a predict job.
#include "runtime/plan/check/check.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ops/core/check.h"
#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::plan {

void Location::refuse(const std::string& what) const {
  std::string place = *path_ + ": ";
  if (!job_.empty()) place += fmt::format("job `{}`", job_);
  if (!kind_.empty()) place += fmt::format("{}{} `{}`", job_.empty() ? "" : ", ", kind_, name_);
  if (!job_.empty() || !kind_.empty()) place += ": ";
  throw RequestError(place + what, "recompile the job file with flowc build");
}

const ops::OpSpec& spec_of(const ops::OpRef& op, const Location& location) {
  const ops::OpSpec* spec = op.spec();
  location.require(spec && spec->infer && !spec->dropped, "unknown op `{}`", op.name());
  return *spec;
}

ops::JobTypes types_of(const Job& job) {
  ops::JobTypes types{.compute = compute_dtype_of(job.precision),
                      .low_precision = low_precision_of(job.precision),
                      .shards = shards_of(job)};
  for (const Input& input : job.inputs) {
    const Tensor& tensor = job[input.tensor];
    if (tensor.batch_axis < 0 || types.batch > 0) continue;
    types.batch = tensor.shape[tensor.batch_axis];
  }
  return types;
}

ops::Operand operand_of(const Tensor& tensor) {
  return {tensor.dtype, tensor.shape, tensor.batch_axis};
}

std::vector<ops::Result> check_call(const ops::OpSpec& spec, std::vector<ops::Operand> operands,
                                    const Attributes& attributes, const ops::JobTypes& types,
                                    const Location& location) {
  ops::Call call(std::move(operands), attributes, types);
  ops::check_types(spec, call);
  if (!call.failed()) spec.infer(call);
  if (call.failed()) location.refuse(call.refusals().front().text);
  return call.results();
}

namespace {

/// Ids have 32 bits; no real plan has as many elements as this.
constexpr size_t kMost = size_t{1} << 24;

class IdCheck {
 public:
  IdCheck(const Job& job, const Location& location) : job_(job), location_(location) {}

  void run() {
    location_.require(job_.tensors.size() <= kMost && job_.steps.size() <= kMost,
                      "too many tensors ({}) or steps ({})", job_.tensors.size(),
                      job_.steps.size());
    for (const Tensor& tensor : job_.tensors) may_be(tensor.alias, "alias");
    for (const Step& step : job_.steps) in_step(step);
    for (const Variable& variable : job_.variables) must_be(variable.tensor, "variables");
    for (const Input& input : job_.inputs) must_be(input.tensor, "inputs");
    for (const Hook& hook : job_.hooks) must_be(hook.tensor, "hooks");
    if (job_.returns) in_return(job_.returns->value);
    if (job_.loop) in_loop(*job_.loop);
    if (job_.optimizer)
      visit_tensors(*job_.optimizer, [this](TensorId id) { must_be(id, "optimizer"); });
  }

 private:
  void may_be(TensorId id, std::string_view what) const {
    location_.require(!id.valid() || id.index() < job_.tensors.size(), "{}: unknown tensor {}",
                      what, id.value);
  }
  void must_be(TensorId id, std::string_view what) const {
    location_.require(id.valid() && id.index() < job_.tensors.size(), "{}: unknown tensor {}", what,
                      id.value);
  }
  void in_step(const Step& step) const {
    for (const TensorId id : step.inputs) must_be(id, step.name);
    for (const TensorId id : step.outputs) may_be(id, step.name);
    for (const EpilogueOp& fused : step.epilogue)
      for (const TensorId id : fused.operands) must_be(id, fused.name);
  }
  void in_loop(const Loop& loop) const {
    may_be(loop.until, "loop");
    for (const TensorId id : loop.states) must_be(id, "loop");
    const auto steps = static_cast<int64_t>(job_.steps.size());
    location_.require(
        0 <= loop.first.value && loop.first.value < loop.end.value && loop.end.value <= steps,
        "the loop has steps {} to {} of {}", loop.first.value, loop.end.value, steps);
  }
  void in_return(const ReturnValue& value) const {
    if (value.is_leaf())
      must_be(value.tensor, "returns");
    else
      location_.require(!value.tensor.valid(), "returns: a nested value names a tensor");
    for (const ReturnValue& item : value.items) in_return(item);
  }

  const Job& job_;
  const Location& location_;
};

}  // namespace

void check_ids(const Job& job, const Location& location) { IdCheck(job, location).run(); }

namespace {

void check_shape(const Tensor& tensor, const Location& location) {
  const Shape& shape = tensor.shape;
  location.require(shape.rank() <= kMaxRank, "{} dimensions; expected at most {}", shape.rank(),
                   kMaxRank);
  for (const int64_t extent : shape)
    location.require(extent >= 1, "extent {} in {}; expected at least 1", extent, shape.str());
  location.require(shape.checked_elements().has_value(), "{} has too many elements to count",
                   shape.str());
  location.require(tensor.batch_axis >= kBatchReduced && tensor.batch_axis < shape.rank(),
                   "invalid row axis {} for {}", tensor.batch_axis, shape.str());
}

void check_alias(const Job& job, const Tensor& tensor, const Location& location) {
  if (!tensor.alias.valid()) return;
  const Tensor& other = job[tensor.alias];
  location.require(tensor.role == Role::kResult, "only a result can reuse memory");
  location.require(tensor.dtype == other.dtype && tensor.shape.elements() == other.shape.elements(),
                   "{} {} cannot reuse the memory of `{}`, {} {}", name_of(tensor.dtype),
                   tensor.shape.str(), other.name, name_of(other.dtype), other.shape.str());
}

}  // namespace

void check_tensors(const Job& job, const Location& location) {
  std::set<std::string_view> names;
  uint64_t bytes = 0;
  for (const Tensor& tensor : job.tensors) {
    const Location here = location.at("tensor", tensor.name);
    here.require(is_safe_name(tensor.name), "invalid name");
    here.require(names.insert(tensor.name).second, "duplicate name");
    check_shape(tensor, here);
    const auto elements = static_cast<uint64_t>(tensor.shape.elements());
    const auto parts = static_cast<uint64_t>(tensor.batch_axis < 0 ? 1 : shards_of(job));
    here.require(elements <= kMostBytes / size_of(tensor.dtype) / parts, "shape {} is too large",
                 tensor.shape.str());
    bytes += elements * parts * size_of(tensor.dtype);
    here.require(bytes <= kMostBytes, "tensors take {} up to here; expected at most {}",
                 human_bytes(bytes), human_bytes(kMostBytes));
  }
  for (const Tensor& tensor : job.tensors)
    check_alias(job, tensor, location.at("tensor", tensor.name));
}

void check_loop(const Job& job, const Location& location) {
  if (!job.loop) return;
  const Loop& loop = *job.loop;
  location.require(!job.train && !job.sharding && job.devices == 1 && !has_two_devices(job),
                   "a loop requires a predict job on one device, without shards");
  location.require(loop.passes >= 1 && loop.passes <= kMaxPasses,
                   "{} passes of a loop; expected 1 to {}", loop.passes, kMaxPasses);
  std::set<TensorId> seen;
  for (const TensorId id : loop.states)
    location.at("state", job[id].name)
        .require(job[id].role == Role::kVariable && seen.insert(id).second,
                 "is not a variable, or is listed twice");
  if (!loop.until.valid()) return;
  const Tensor& until = job[loop.until];
  location.at("loop", until.name)
      .require(until.dtype == DType::kBool && until.role == Role::kResult,
               "ends the loop; expected a bool result");
}

namespace {

void check_lifetimes(const Job& job, const Location& location) {
  Job assigned = job;
  assign_lifetimes(assigned);
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    const Tensor &tensor = job.tensors[i], &right = assigned.tensors[i];
    location.at("tensor", tensor.name)
        .require(tensor.first == right.first && tensor.last == right.last,
                 "wrong lifetime: steps {} to {}, expected {} to {}", tensor.first.value,
                 tensor.last.value, right.first.value, right.last.value);
  }
}

void check_job(const Job& job, const Location& location) {
  location.require(std::ranges::find(kPrecisions, job.precision) != kPrecisions.end(),
                   "unknown precision `{}`", job.precision);
  check_ids(job, location);
  check_sharding(job, location);
  check_tensors(job, location);
  check_loop(job, location);
  check_steps(job, location);
  if (job.sharding) check_layouts(job, location);
  check_io(*UnshardedJob(job), location);
  check_lifetimes(job, location);
}

/// Returns true if the job keeps an average of any variable.
bool is_averaged(const Job& job) {
  return std::ranges::any_of(job.variables, [&](const Variable& variable) {
    return !variable.slot && has_average(job, job[variable.tensor].name);
  });
}

/// Checks that the called jobs exist, that each is called once, and that they can share variables.
void check_also(const Plan& plan, const Job& job, const Location& location) {
  std::vector<const Job*> together{&job};
  for (const SubJob& also : job.run.also) {
    const auto other = std::ranges::find(plan.jobs, also.job, &Job::name);
    location.require(other != plan.jobs.end(), "calls an unknown job `{}`", also.job);
    location.require(!also.averaged || (!other->train && is_averaged(job)),
                     "`{}` reads averages; expected a predict job, and a caller with averages",
                     also.job);
    location.require((also.every_steps > 0) != (also.every_epochs > 0) && also.every_steps >= 0 &&
                         also.every_epochs >= 0,
                     "invalid schedule for calling `{}`: every {} steps, every {} epochs", also.job,
                     also.every_steps, also.every_epochs);
    for (const Job* before : together) {
      location.require(before != &*other, "calls `{}` twice, or calls itself", also.job);
      const auto conflict = sharing_conflict(*before, *other);
      location.require(!conflict, "{}", conflict.value_or(""));
    }
    together.push_back(&*other);
  }
}

}  // namespace

void check(const Plan& plan, const std::string& path) {
  const Location location(path);
  location.require(plan.version == kVersion, "unsupported plan version {}; expected {}",
                   plan.version, kVersion);
  location.require(!plan.jobs.empty(), "the plan has no jobs");
  std::set<std::string_view> names;
  for (const Job& job : plan.jobs) {
    location.require(is_name(job.name), "invalid job name `{}`", job.name);
    location.require(names.insert(job.name).second, "duplicate job name `{}`", job.name);
    check_job(job, location.in_job(job.name));
  }
  for (const Job& job : plan.jobs) {
    check_also(plan, job, location.in_job(job.name));
    check_followed(plan, job, location.in_job(job.name));
  }
}

}  // namespace flow::plan
