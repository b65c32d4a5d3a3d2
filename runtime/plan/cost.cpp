// Estimates from multiplications and bytes moved.
#include "runtime/plan/cost.h"

#include <algorithm>

namespace flow::plan {
namespace {

constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 2e10;

double elements(const Job& job, TensorId id) {
  return static_cast<double>(job[id].shape.elements());
}

double flops(const Job& job, const Step& step) {
  if (step.op == "matmul") {
    const Shape& a = job[step.inputs[0]].shape;
    const bool transposed = step.attributes.get<bool>("transpose_a");
    const double k = static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]);
    return 2 * k * elements(job, step.outputs[0]);
  }
  if (step.op.starts_with("convolution")) {
    // Each element of the output side meets each weight of its filter.
    const bool backward = step.op == "convolution_grad_data";
    const TensorId output = backward                   ? step.inputs[0]
                            : step.op == "convolution" ? step.outputs[0]
                                                       : step.inputs[1];
    const TensorId weight = step.op == "convolution_grad_weight" ? step.outputs[0] : step.inputs[1];
    const double filters = static_cast<double>(job[weight].shape[0]);
    return 2 * elements(job, output) * elements(job, weight) / std::max(1.0, filters);
  }
  if (step.op.starts_with("scaled_dot_product_attention")) {
    // A score for each query and key, and what it is made from and goes into.
    const size_t query = step.op.ends_with("_grad") ? 1 : 0;
    const Shape &key = job[step.inputs[query + 1]].shape,
                &value = job[step.inputs[query + 2]].shape;
    const int last = key.rank() - 1;
    const double products = query == 0 ? 2 : 5;
    const double depth = static_cast<double>(key[last] + value[last]) / 2;
    return 2 * products * elements(job, step.inputs[query]) / static_cast<double>(key[last]) *
           static_cast<double>(key[last - 1]) * depth;
  }
  return 0;
}

}  // namespace

double estimate_seconds(const Job& job, const Step& step) {
  double bytes = 0;
  const auto count = [&](TensorId id) {
    if (id.valid()) bytes += elements(job, id) * static_cast<double>(size_of(job[id].dtype));
  };
  for (TensorId id : step.inputs) count(id);
  for (TensorId id : step.outputs) count(id);
  return std::max(flops(job, step) / kFlopsPerSecond, bytes / kBytesPerSecond);
}

double estimate_call_seconds(const Job& job) {
  double seconds = 0;
  for (const Step& step : job.steps)
    if (!step.tap) seconds += estimate_seconds(job, step);
  return seconds;
}

}  // namespace flow::plan
