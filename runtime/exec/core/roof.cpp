// Measures peak rates with a small job, so that every backend is measured in the same way.
#include "runtime/exec/core/profile.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "ops/core/known.h"
#include "runtime/base/error.h"
#include "runtime/exec/core/state.h"
#include "runtime/plan/model/cost.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"

namespace flow::exec {
namespace {

using plan::TensorId;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TensorId add_tensor(plan::Job& job, std::string name, const Shape& shape, DType dtype,
                    plan::Role role) {
  plan::Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape = shape;
  tensor.dtype = dtype;
  tensor.role = role;
  job.tensors.push_back(std::move(tensor));
  return TensorId{job.tensors.size() - 1};
}

TensorId add_variable(plan::Job& job, const Shape& shape, DType dtype) {
  const std::string name = "operand" + std::to_string(job.variables.size());
  plan::Variable variable;
  variable.tensor = add_tensor(job, name, shape, dtype, plan::Role::kVariable);
  job.variables.push_back(std::move(variable));
  return job.variables.back().tensor;
}

/// Returns a job with one step, which reads two variables of shape `shape`.
plan::Job one_step(const plan::Job& job, const ops::OpSpec& op, const Shape& shape, DType operands,
                   plan::Attributes attributes) {
  plan::Job work;
  work.name = "roof";
  work.where = job.where;
  work.device = job.device;
  work.precision = job.precision;
  work.deterministic = job.deterministic;
  plan::Step step;
  step.op = std::string(op.name);
  step.name = op.name;
  step.inputs = {add_variable(work, shape, operands), add_variable(work, shape, operands)};
  step.outputs = {add_tensor(work, step.name, shape, plan::compute_dtype_of(job.precision),
                             plan::Role::kResult)};
  step.attributes = std::move(attributes);
  work.steps.push_back(std::move(step));
  plan::assign_lifetimes(work);
  return work;
}

plan::Job product(const plan::Job& job, int64_t rows) {
  const DType operands =
      plan::low_precision_of(job.precision).value_or(plan::compute_dtype_of(job.precision));
  return one_step(job, *ops::kMatmul, {rows, rows}, operands,
                  {{"transpose_a", false}, {"transpose_b", false}});
}

plan::Job sum(const plan::Job& job, int64_t elements) {
  return one_step(job, *ops::kAdd, {elements}, plan::compute_dtype_of(job.precision), {});
}

/// Fills the operands with numbers of mixed signs, because a device may be faster with zeros.
void write_operands(const plan::Job& work, Program& program) {
  constexpr size_t kNumbers = 1 << 12;  // the numbers repeat after this many
  std::vector<double> numbers(kNumbers);
  for (size_t i = 0; i < kNumbers; ++i) numbers[i] = static_cast<double>(i * 7 % 17) / 8 - 1;
  for (const plan::Variable& variable : work.variables) {
    const plan::Tensor& tensor = work[variable.tensor];
    Array value(tensor.dtype, tensor.shape);
    for (std::span<std::byte> left = value.bytes(); !left.empty();) {
      const auto part = left.first(std::min(left.size(), kNumbers * size_of(tensor.dtype)));
      round_to(std::span(numbers).first(part.size() / size_of(tensor.dtype)), tensor.dtype, part);
      left = left.subspan(part.size());
    }
    program.write_variable(variable.tensor, value.view());
  }
}

/// The shortest times of several calls, in seconds.
struct Shortest {
  double step = kInfinity;  // the time that the backend measures; infinite if it does not
  double call = kInfinity;  // the time that a waiting caller measures
};

Shortest time_of(Backend& backend, const plan::Job& work, int threads) {
  constexpr int64_t kCalls = 3;
  PrepareOptions options;
  options.threads = threads;
  options.profile = true;
  const std::unique_ptr<Program> program = backend.prepare(work, options);
  write_operands(work, *program);
  const std::vector<TimedStep> timed = program->timed_steps();
  Shortest shortest;
  const auto take = [](double& least, int64_t begin, int64_t end) {
    if (begin < end) least = std::min(least, static_cast<double>(end - begin) * 1e-9);
  };
  for (int64_t call = 0; call < kCalls; ++call) {
    const int64_t begin = Profile::now();
    program->launch({call, 0, {}}, 0, 0);
    program->wait(0);
    take(shortest.call, begin, Profile::now());
    const std::span<const int64_t> ends = program->step_times(0);
    for (size_t i = 0; i < timed.size(); ++i)
      if (timed[i].name == work.steps[0].name) take(shortest.step, ends[i], ends[i + 1]);
  }
  return shortest;
}

/// Returns how much of `amount` the step does per second. The size of the work grows by `factor`,
/// up to `most`, until it takes long enough to keep the device busy.
template <typename MakeWork, typename Amount>
double rate_of(Backend& backend, int threads, int64_t size, int64_t factor, int64_t most,
               MakeWork make_work, Amount amount) {
  constexpr double kLongEnough = 5e-3;  // seconds
  for (;; size *= factor) {
    const plan::Job work = make_work(size);
    const Shortest shortest = time_of(backend, work, threads);
    if (shortest.call >= kLongEnough || size * factor > most)
      return amount(work, work.steps[0]) / shortest.step;
  }
}

}  // namespace

Roof measure_roof(Backend& backend, const plan::Job& job, int threads) {
  const auto flops = [](const plan::Job& work, const plan::Step& step) {
    return plan::flops(work, step);
  };
  try {
    return {rate_of(
                backend, threads, 256, 2, 8192, [&](int64_t rows) { return product(job, rows); },
                flops),
            rate_of(
                backend, threads, int64_t{1} << 16, 4, int64_t{1} << 26,
                [&](int64_t elements) { return sum(job, elements); }, plan::traffic)};
  } catch (const RunError&) {
    return {};
  }
}

}  // namespace flow::exec
