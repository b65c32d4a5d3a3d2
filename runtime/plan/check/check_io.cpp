// Checks the inputs and outputs of a job: variables, inputs, deliveries, optimizer, run section.
#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "runtime/plan/check/check.h"
#include "runtime/plan/check/check_record.h"
#include "runtime/plan/model/optimizers.h"
#include "runtime/plan/model/precision.h"

namespace flow::plan {
namespace {

template <typename... T>
void check_values(const std::variant<T...>& value, const Location& location) {
  const auto check = [&](std::string_view name, double number, const Bounds& bounds) {
    location.require(std::isfinite(number), "`{}` is {}; expected a finite number", name, number);
    location.require(is_within(number, bounds), "`{}` is {}; expected at least {}", name, number,
                     bounds.min.value_or(number));
  };
  std::visit([&](const auto& record) { for_each_number(record, check); }, value);
}

/// Checks that the list contains each tensor of that role exactly once, except for `others`, and
/// nothing else.
template <typename Listed>
void check_roles(const Job& job, const std::vector<Listed>& list, Role role, std::string_view kind,
                 const Location& location, std::span<const TensorId> others = {}) {
  std::vector<bool> seen(job.tensors.size());
  for (const TensorId id : others) seen[id.index()] = true;
  for (const Listed& listed : list) {
    const Tensor& tensor = job[listed.tensor];
    location.at(kind, tensor.name)
        .require(tensor.role == role && !seen[listed.tensor.index()],
                 "has another role, or is listed twice");
    seen[listed.tensor.index()] = true;
  }
  for (size_t i = 0; i < job.tensors.size(); ++i)
    location.at(kind, job.tensors[i].name)
        .require(job.tensors[i].role != role || seen[i], "missing in the list of {}s", kind);
}

void check_variable(const Job& job, const Variable& variable, const Location& location) {
  const Initializer& initializer = variable.initializer;
  const DType dtype = job[variable.tensor].dtype, number = compute_dtype_of(job.precision);
  location.require(dtype == number || is_low_precision(dtype), "dtype {} in a job of precision {}",
                   name_of(dtype), name_of(number));
  location.require(dtype == number || !variable.slot, "{}; expected {}, as of all slots",
                   name_of(dtype), name_of(number));
  check_values(initializer, location);
  if (const auto* npy = std::get_if<initializers::Npy>(&initializer))
    location.require(!npy->path.empty(),
                     "initializer npy: only npy takes a path, and requires one");
}

const Column& find_column(const Job& job, const FromDataset& source, const Location& location) {
  const auto dataset = std::ranges::find(job.datasets, source.dataset, &Dataset::name);
  if (dataset == job.datasets.end())
    location.refuse(fmt::format("unknown dataset `{}`", source.dataset));
  if (!source.part.empty())
    location.require(
        dataset->split && std::ranges::count(dataset->split->parts, source.part, &SplitPart::name),
        "unknown part `{}`", source.rows_name());
  const auto column = std::ranges::find(dataset->columns, source.column, &Column::name);
  if (column == dataset->columns.end())
    location.refuse(fmt::format("unknown column `{}.{}`", source.dataset, source.column));
  return *column;
}

/// Checks that the rows of the input match those of its column. Returns the batch size.
int64_t check_column_source(const Job& job, const Shape& shape, const FromDataset& source,
                            const Location& location) {
  const Column& column = find_column(job, source, location);
  location.require(shape.rank() > 0, "shape is []; expected a batch axis");
  const Shape row = shape.from(1);
  location.require(row == column.row_shape, "shape is {}, but rows of `{}` are {}", shape.str(),
                   column.name, column.row_shape.str());
  return shape[0];
}

void check_generator(const Tensor& tensor, const FromGenerator& source, const Location& location) {
  check_values(source, location);
  const std::vector<GeneratorFault> faults = faults_of(source, tensor.dtype, tensor.shape);
  if (!faults.empty()) location.refuse(faults.front().message);
}

void check_inputs(const Job& job, const Location& location) {
  std::optional<int64_t> batch;
  for (const Input& input : job.inputs) {
    const Tensor& tensor = job[input.tensor];
    const Location here = location.at("input", tensor.name);
    here.require(tensor.batch_axis < 0 || tensor.shape[tensor.batch_axis] % job.devices == 0,
                 "cannot split {} among {} devices", tensor.shape.str(), job.devices);
    if (const auto* column = std::get_if<FromDataset>(&input.source)) {
      const int64_t rows = check_column_source(job, tensor.shape, *column, here);
      here.require(rows == batch.value_or(rows), "batch of {}; another input has {}", rows,
                   batch.value_or(rows));
      batch = rows;
    }
    if (const auto* file = std::get_if<FromNpy>(&input.source))
      here.require(!file->path.empty(), "missing path");
    if (const auto* generator = std::get_if<FromGenerator>(&input.source))
      check_generator(tensor, *generator, here);
    if (input.range)
      here.require(is_integer(tensor.dtype) && input.range->first <= input.range->second,
                   "range [{}, {}] of {}", input.range->first, input.range->second,
                   name_of(tensor.dtype));
  }
}

void check_optimizer(const Job& job, const Location& location) {
  location.require(job.train == job.optimizer.has_value(),
                   "a train job requires an optimizer; other jobs have none");
  if (!job.optimizer) return;
  const Optimizer& optimizer = *job.optimizer;
  const Location here = location.at("optimizer", optimizer.type);
  OptimizerRule rule;
  here.require(set_type(rule, optimizer.type), "unknown optimizer");
  check_schedule(optimizer.learning_rate, here);
  const auto check_scalar = [&](TensorId id, Role role, std::string_view what) {
    const Tensor& tensor = job[id];
    const DType number = compute_dtype_of(job.precision);
    here.require(tensor.role == role && tensor.dtype == number && tensor.shape.elements() == 1,
                 "{} `{}` is {} {}; expected a scalar {} {}", what, tensor.name,
                 name_of(tensor.dtype), tensor.shape.str(), name_of(number),
                 role == Role::kVariable ? "variable" : "result");
    for (const Step& step : job.steps)
      here.require(!step.probe || std::ranges::find(step.outputs, id) == step.outputs.end(),
                   "{} `{}` comes from a tap", what, tensor.name);
  };
  check_scalar(optimizer.loss, Role::kResult, "loss");
  if (optimizer.gradient_norm)
    check_scalar(*optimizer.gradient_norm, Role::kResult, "norm of the gradients");
  if (!optimizer.loss_scale) return;
  check_scalar(optimizer.loss_scale->scale, Role::kVariable, "loss scale");
  check_scalar(optimizer.loss_scale->factor, Role::kResult, "factor of the gradients");
}

void check_names(const std::vector<NameRule>& rules, const Location& location) {
  location.require(rules.size() <= kMostNameRules, "{} rules for names; expected at most {}",
                   rules.size(), kMostNameRules);
  for (const NameRule& rule : rules)
    if (const std::vector<NameRuleFault> faults = faults_of(rule); !faults.empty())
      location.refuse(fmt::format("a rule for names: {}", faults.front().message));
}

/// Checks the order in which an epoch reads rows.
void check_order(const Job& job, const Location& location) {
  const Run& run = job.run;
  location.require(
      run.data_threads.value_or(1) >= 1 && run.data_threads.value_or(1) <= kMaxDataThreads,
      "data_threads is out of range");
  if (run.shuffle_buffer) check_record(*run.shuffle_buffer, location);
  const bool shuffles = run.shuffle || run.shuffle_buffer;
  location.require(!(run.shuffle && run.shuffle_buffer), "two kinds of shuffling");
  if (!run.sampling) return;
  const Sampling& sampling = *run.sampling;
  location.require(job.train && !shuffles && !job.datasets.empty(),
                   "`sampling` requires a train job that reads a dataset and does not shuffle");
  location.require(sampling.epoch_rows >= 0 && sampling.epoch_rows <= kMostRows,
                   "epoch_rows is out of range");
  const bool uniform = sampling.kind == Sampling::Kind::kUniform;
  location.require(uniform == sampling.column.empty() && uniform == sampling.dataset.empty(),
                   "only weights and balance sample by a column");
  if (!uniform) find_column(job, {sampling.dataset, sampling.part, sampling.column}, location);
}

void check_run(const Job& job, const Location& location) {
  const Run& run = job.run;
  const Checkpointing& checkpoint = run.checkpoint;
  for (const int64_t count : {run.epochs.value_or(0), run.steps.value_or(0)})
    location.require(count >= 0 && count <= kMostSteps, "invalid number of steps or epochs: {}",
                     count);
  location.require(!run.epochs || !job.datasets.empty(), "`epochs` requires a dataset");
  location.require(run.pipeline >= 1 && run.pipeline <= kMaxPipeline, "invalid pipeline depth {}",
                   run.pipeline);
  location.require(run.log_every >= 1 && checkpoint.keep >= 1 && checkpoint.every_steps >= 0 &&
                       checkpoint.every_epochs >= 0 && checkpoint.every_minutes.value_or(1) > 0,
                   "a number in the run section is out of range");
  check_names(checkpoint.names, location);
  check_order(job, location);
}

}  // namespace

void check_io(const Job& job, const Location& location) {
  const std::vector<TensorId> states = job.loop ? job.loop->states : std::vector<TensorId>();
  check_roles(job, job.variables, Role::kVariable, "variable", location, states);
  check_roles(job, job.inputs, Role::kInput, "input", location);
  for (const Variable& variable : job.variables)
    check_variable(job, variable, location.at("variable", job[variable.tensor].name));
  check_datasets(job, location);
  check_inputs(job, location);
  check_deliveries(job, location);
  check_optimizer(job, location);
  check_run(job, location);
}

}  // namespace flow::plan
