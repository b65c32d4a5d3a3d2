// Estimates from multiplications and bytes moved.
#include "runtime/cpu/cost.h"

#include <algorithm>

#include "runtime/cpu/features.h"

namespace flow::cpu {
namespace {

constexpr double kFlopsPerSecond = 1e11, kBytesPerSecond = 2e10;
constexpr int kMostThreads = 256;
constexpr double kSharedCall = 60e-6, kSharedStep = 4e-6;  // seconds worth more than one thread

double elements(const plan::Job& job, plan::TensorId id) {
  return static_cast<double>(job[id].shape.elements());
}

double flops(const plan::Job& job, const plan::Step& step) {
  if (step.op == "matmul") {
    const Shape& a = job[step.inputs[0]].shape;
    const bool transposed = step.attributes.get<bool>("transpose_a");
    const double k = static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]);
    return 2 * k * elements(job, step.outputs[0]);
  }
  if (step.op.starts_with("convolution")) {
    // Each element of the output side meets each weight of its filter.
    const bool backward = step.op == "convolution_grad_data";
    const plan::TensorId output = backward                   ? step.inputs[0]
                                  : step.op == "convolution" ? step.outputs[0]
                                                             : step.inputs[1];
    const plan::TensorId weight =
        step.op == "convolution_grad_weight" ? step.outputs[0] : step.inputs[1];
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

double estimate_seconds(const plan::Job& job, const plan::Step& step) {
  double bytes = 0;
  const auto count = [&](plan::TensorId id) {
    if (id.valid()) bytes += elements(job, id) * static_cast<double>(size_of(job[id].dtype));
  };
  for (plan::TensorId id : step.inputs) count(id);
  for (plan::TensorId id : step.outputs) count(id);
  return std::max(flops(job, step) / kFlopsPerSecond, bytes / kBytesPerSecond);
}

int choose_threads(const plan::Job& job, int requested) {
  if (requested > 0) return std::min(requested, kMostThreads);
  double seconds = 0;
  for (const plan::Step& step : job.steps)
    if (!step.tap) seconds += estimate_seconds(job, step);
  return seconds < kSharedCall ? 1 : std::min(usable_cores(), kMostThreads);
}

int choose_threads(const plan::Job& job, const plan::Step& step, int threads) {
  return estimate_seconds(job, step) < kSharedStep ? 1 : threads;
}

}  // namespace flow::cpu
