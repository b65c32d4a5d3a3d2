// Counts operations by the records of ops, and estimates times from multiplications and bytes
// moved.
#include "runtime/plan/model/cost.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "ops/core/spec.h"
#include "runtime/base/array.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {

namespace {

double elements(const Job& job, TensorId id) {
  return id.valid() ? static_cast<double>(job[id].shape.elements()) : 0;
}

double elements(const Job& job, const std::vector<TensorId>& ids, size_t i) {
  return i < ids.size() ? elements(job, ids[i]) : 0;
}

double window_of(const Step& step) {
  double window = 1;
  for (const int64_t extent : step.attributes.get<std::vector<int64_t>>("ksize"))
    window *= static_cast<double>(extent);
  return window;
}

/// Returns the number of elements for which operations are counted.
double counted(const Job& job, const Step& step, ops::Flops::Each each) {
  switch (each) {
    case ops::Flops::Each::kResult:
      return elements(job, step.outputs, 0);
    case ops::Flops::Each::kFirst:
      return elements(job, step.inputs, 0);
    case ops::Flops::Each::kSecond:
      return elements(job, step.inputs, 1);
    case ops::Flops::Each::kOperands:
      return std::accumulate(step.inputs.begin(), step.inputs.end(), 0.0,
                             [&](double sum, TensorId id) { return sum + elements(job, id); });
  }
  return 0;
}

}  // namespace

double product_flops(const Job& job, const Step& step) {
  const ops::Flops::Rule product = step.op->flops.product;
  if (!product) return 0;
  std::vector<Shape> operands;
  for (const TensorId id : step.inputs) operands.push_back(job[id].shape);
  return product(operands, job[step.outputs[0]].shape, step.attributes);
}

double flops(const Job& job, const Step& step) {
  const ops::Flops& flops = step.op->flops;
  if (flops.product) return product_flops(job, step);
  return flops.operations * (flops.windows ? window_of(step) : 1) * counted(job, step, flops.each);
}

double flops(const Job& job, const Step& step, const EpilogueOp& fused) {
  return fused.op->flops.operations * elements(job, step.outputs, 0);
}

double traffic(const Job& job, const Step& step) {
  uint64_t bytes = 0;
  const auto add = [&](TensorId id) { bytes += bytes_of(job[id].shape, job[id].dtype); };
  visit_operands(step, add);
  for (const TensorId id : step.outputs)
    if (id.valid()) add(id);
  return static_cast<double>(bytes);
}

bool is_backward(const Step& step) {
  // The passes of the compiler put these marks into the names of steps that only training needs.
  // The names of casts and copies have other words after a colon.
  constexpr std::array<std::string_view, 3> kMarks = {":diff", ":update", ":regularized"};
  return step.op->for_updates || std::ranges::any_of(kMarks, [&](std::string_view mark) {
           return step.name.find(mark) != std::string::npos;
         });
}

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
