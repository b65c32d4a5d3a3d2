// Estimates from multiplications and bytes moved.
#include "runtime/plan/model/cost.h"

#include <algorithm>

#include "runtime/base/array.h"
#include "runtime/plan/model/flops.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {
namespace {

constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 2e10;

}  // namespace

double estimate_seconds(const Job& job, const Step& step) {
  double bytes = 0;
  const auto count = [&](TensorId id) {
    if (id.valid()) bytes += static_cast<double>(bytes_of(job[id].shape, job[id].dtype));
  };
  for (TensorId id : step.inputs) count(id);
  for (TensorId id : step.outputs) count(id);
  return std::max(product_flops(job, step) / kFlopsPerSecond, bytes / kBytesPerSecond);
}

double estimate_call_seconds(const Job& job) {
  double seconds = 0;
  for (size_t i = 0; i < job.steps.size(); ++i)
    if (!job.steps[i].probe)
      seconds += static_cast<double>(runs_of(job, StepId(i))) * estimate_seconds(job, job.steps[i]);
  return seconds;
}

}  // namespace flow::plan
