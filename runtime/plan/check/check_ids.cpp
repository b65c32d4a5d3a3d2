// Every id of a job lies within its vector.
#include "runtime/plan/check/check_job.h"

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

}  // namespace flow::plan
