// Every id of a job lies within its vector; each tensor by itself, and all together; and the loop
// of a predict job.
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {

namespace {

/// Ids are 32 bits; nobody's plan has this many.
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

}  // namespace flow::plan
