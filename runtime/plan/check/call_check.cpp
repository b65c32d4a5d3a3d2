// Calls of ops in plans, checked against the ops' records.
#include "runtime/plan/check/call_check.h"

#include "ops/core/check.h"
#include "runtime/plan/model/precision.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {

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

}  // namespace flow::plan
