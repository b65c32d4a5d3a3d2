// Checks what leaves a job: its return, its hooks and their sinks. Also checks that the numbers of
// the learning rate are in their ranges, and that a hook of the right job computes each value that
// a job follows.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/condition.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::plan {
namespace {

void check_print(const PrintSink& print, const Location& location) {
  location.require(std::isfinite(print.scale), "print sink: scale is {}; expected a finite number",
                   print.scale);
  location.require(!print.metric || print.reduce == Reduce::kNone,
                   "print sink: a metric and a reduction");
  location.require(print.every >= 1, "print sink: `every` is {}; expected at least 1", print.every);
  location.require(print.format == "numpy" || is_number_format(print.format),
                   "print sink: invalid number format `{}`", print.format);
}

/// A NUL would end the name or word for the operating system.
bool holds_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

void check_command(const CommandSink& command, const Location& location) {
  location.require(!command.run.empty() && !command.run[0].empty(), "command sink: no program");
  location.require(!command.shell || command.run.size() == 1,
                   "command sink: {} shell lines; expected 1", command.run.size());
  for (const std::string& word : command.run)
    location.require(!holds_nul(word), "command sink: an argument contains a NUL byte");
  for (const auto& [name, value] : command.env) {
    location.require(is_name(name), "command sink: invalid environment variable name `{}`", name);
    location.require(!holds_nul(value),
                     "command sink: environment variable `{}` contains a NUL byte", name);
    location.require(
        environment_parts(value).has_value(),
        "command sink: invalid `$` in environment variable `{}`; expected `$$` or `$env(NAME)`",
        name);
  }
  location.require(
      !command.timeout || (*command.timeout > 0 && *command.timeout <= kLongestTimeout),
      "command sink: invalid timeout of {} seconds", command.timeout.value_or(0));
  location.require(!command.ack || command.mode == CommandSink::Mode::kStream,
                   "command sink: `ack` requires a streaming command");
}

/// Checks that the metric can be computed from the tensor.
void check_metric(const Metric& metric, const Tensor& tensor, const Location& location) {
  const std::string_view type = enum_name(metric.type);
  location.require(metric.classes >= 0 &&
                       metric.classes <= (is_number(metric) ? kMostClasses : kMostMatrixClasses),
                   "metric {}: invalid number of classes {}", type, metric.classes);
  const bool scores = metric.type == MetricType::kAuc || metric.type == MetricType::kPerplexity;
  location.require(scores ? is_float(tensor.dtype) : tensor.dtype == DType::kInt64,
                   "metric {}: unexpected dtype {}", type, name_of(tensor.dtype));
  const int rank = tensor.shape.rank();
  location.require(
      metric.type == MetricType::kPerplexity || (rank > 0 && tensor.shape[rank - 1] == 2),
      "metric {}: shape {}; expected pairs along the last axis", type, tensor.shape.str());
}

/// Returns the metric that a sink accumulates, or null.
const Metric* metric_of(const Sink& sink) {
  const auto* print = std::get_if<PrintSink>(&sink);
  const auto* mean = std::get_if<MeanSink>(&sink);
  if (print && print->metric) return &*print->metric;
  return mean && mean->metric ? &*mean->metric : nullptr;
}

void check_hook_metrics(const Job& job, const Hook& hook, const Location& location) {
  for (const Sink& sink : hook.sinks) {
    const Metric* metric = metric_of(sink);
    if (!metric) continue;
    check_metric(*metric, job[hook.tensor], location);
    location.require(hook.kind == Hook::Kind::kWatch && hook.factor == 1 && !hook.per_device,
                     "metric {} of a part or a gradient", enum_name(metric->type));
    location.require(std::holds_alternative<PrintSink>(sink) || is_number(*metric),
                     "a followed matrix; expected one number");
  }
}

void check_sinks(const std::vector<Sink>& sinks, const Location& location) {
  for (const Sink& sink : sinks) {
    if (const auto* print = std::get_if<PrintSink>(&sink)) check_print(*print, location);
    if (const auto* command = std::get_if<CommandSink>(&sink)) check_command(*command, location);
    if (const auto* stats = std::get_if<StatsSink>(&sink))
      location.require(stats->bins >= 1 && stats->bins <= kMostBins,
                       "stats sink: {} bins; expected 1 to {}", stats->bins, kMostBins);
  }
}

/// Checks that a per-device value is split along its rows.
void check_parts(const Job& job, TensorId id, const Location& location) {
  const Tensor& tensor = job[id];
  location.require(
      tensor.batch_axis <= 0 && (tensor.batch_axis < 0 || tensor.shape[0] % job.devices == 0),
      "cannot split `{}` of {} among {} devices", tensor.name, tensor.shape.str(), job.devices);
}

void check_return_value(const Job& job, const ReturnValue& value, const Location& location) {
  using Kind = ReturnValue::Kind;
  location.require(value.is_leaf() == value.items.empty(),
                   "a returned array has items, or a returned container is empty");
  location.require(value.keys.size() == (value.kind == Kind::kDict ? value.items.size() : 0),
                   "{} keys for {} returned values", value.keys.size(), value.items.size());
  location.require(!value.is_leaf() || is_safe_name(value.name),
                   "invalid name `{}` for a returned array", value.name);
  if (value.kind == Kind::kListNumpy) check_parts(job, value.tensor, location);
  std::set<std::string_view> keys;
  for (const std::string& key : value.keys) {
    location.require(is_safe_key(key), "invalid returned key `{}`; expected a file name", key);
    location.require(keys.insert(key).second, "duplicate returned key `{}`", key);
  }
  for (const ReturnValue& item : value.items) check_return_value(job, item, location);
}

void check_condition(const Job& job, const std::string& when, const Location& location) {
  ConditionError error;
  const std::optional<Condition> condition = parse_condition(when, error);
  location.require(condition.has_value(), "invalid condition `{}`: {}", shortened(when),
                   error.message);
  location.require(!condition->reads(Statistic::kGradientNorm) ||
                       (job.optimizer && job.optimizer->gradient_norm),
                   "condition `{}`: the job computes no norm of its gradients", shortened(when));
}

void check_hook(const Job& job, const Hook& hook, const Location& location) {
  location.require(is_safe_name(hook.name), "invalid name");
  location.require(job.train || hook.kind == Hook::Kind::kWatch, "a predict job has no gradients");
  location.require(std::isfinite(hook.factor), "factor is {}; expected a finite number",
                   hook.factor);
  const DType dtype = job[hook.tensor].dtype;
  location.require(hook.factor == 1 || dtype == DType::kFloat32 || dtype == DType::kFloat64,
                   "factor is {} for dtype {}; expected 1", hook.factor, name_of(dtype));
  if (hook.per_device) check_parts(job, hook.tensor, location);
  location.require(hook.scope.empty() == hook.op.empty(), "scope and op require each other");
  location.require(hook.scope.empty() || (is_safe_name(hook.scope) && is_safe_name(hook.op)),
                   "invalid scope `{}` or op `{}`", hook.scope, hook.op);
  location.require(!hook.steps.empty(), "never fires: no steps");
  for (const StepRange& range : hook.steps)
    location.require(0 <= range.first && range.first < range.end && range.stride >= 1,
                     "invalid steps {}..{}/{}", range.first, range.end, range.stride);
  if (hook.when) check_condition(job, *hook.when, location);
  location.require(hook.when || !hook.stops, "stops the run without a condition");
  check_hook_metrics(job, hook, location);
  check_sinks(hook.sinks, location);
}

/// Checks that no two hooks write the same file.
void check_outputs(const Job& job, const Location& location) {
  std::set<std::pair<Hook::Kind, std::string_view>> writers;
  for (const Hook& hook : job.hooks) {
    const auto is_npy = [](const Sink& sink) { return std::holds_alternative<NpySink>(sink); };
    if (std::ranges::none_of(hook.sinks, is_npy)) continue;
    location.at("hook", hook.name)
        .require(writers.emplace(hook.kind, hook.name).second, "another hook writes the same file");
  }
}

}  // namespace

void check_deliveries(const Job& job, const Location& location) {
  if (job.returns) {
    const Location here = location.at("return", job.returns->type);
    check_return_value(job, job.returns->value, here);
    for (const Sink& sink : job.returns->sinks)
      here.require(!metric_of(sink), "a metric of a return; expected a hook");
    check_sinks(job.returns->sinks, here);
  }
  for (const Hook& hook : job.hooks) check_hook(job, hook, location.at("hook", hook.name));
  check_outputs(job, location);
}

namespace {

void check_numbers(const RateFunction& function, const Location& location) {
  const auto check = [&](std::string_view name, double number, const Bounds& bounds) {
    location.require(std::isfinite(number) && is_within(number, bounds),
                     "learning rate: `{}` is {}, out of range", name, number);
  };
  std::visit([&](const auto& one) { for_each_number(one, check); }, function);
}

/// Checks a piecewise schedule. `more` is the number of rates minus the number of boundaries.
void check_pieces(const std::vector<int64_t>& boundaries, const std::vector<double>& rates,
                  size_t more, const Location& location) {
  location.require(rates.size() == boundaries.size() + more,
                   "learning rate: {} rates do not match {} boundaries", rates.size(),
                   boundaries.size());
  location.require(
      std::ranges::adjacent_find(boundaries, std::greater_equal<>()) == boundaries.end(),
      "learning rate: boundaries must increase");
  location.require(std::ranges::all_of(rates, [](double rate) { return std::isfinite(rate); }),
                   "learning rate: a rate is not finite");
}

void check_function(const RateFunction& function, const std::optional<Warmup>& warmup,
                    const Location& location) {
  check_numbers(function, location);
  if (const auto* pieces = std::get_if<schedules::PiecewiseConstant>(&function))
    check_pieces(pieces->boundaries, pieces->values, 1, location);
  if (const auto* pieces = std::get_if<schedules::PiecewiseScaling>(&function))
    check_pieces(pieces->boundaries, pieces->scale, 0, location);
  if (!warmup) return;
  location.require(
      warmup->steps >= 1 && warmup->multiplier >= 0 && std::isfinite(warmup->multiplier),
      "invalid warm-up: {} steps from {}", warmup->steps, warmup->multiplier);
}

}  // namespace

void check_schedule(const Schedule& schedule, const Location& location) {
  check_function(schedule.function, schedule.warmup, location);
  const auto is_plateau = [](const RateFunction& function) {
    return std::holds_alternative<schedules::Plateau>(function);
  };
  int64_t before = 0;
  for (const ScheduleStage& stage : schedule.stages) {
    check_function(stage.function, stage.warmup, location);
    location.require(!is_plateau(schedule.function) && !is_plateau(stage.function),
                     "learning rate: a list has a plateau");
    location.require(stage.from > before && stage.from <= kMostSteps,
                     "learning rate: stage from step {} after {}", stage.from, before);
    before = stage.from;
  }
}

namespace {

bool is_made(const Job& job, const std::string& key) {
  return std::ranges::any_of(job.hooks, [&](const Hook& hook) {
    return std::ranges::any_of(hook.sinks, [&](const Sink& sink) {
      const auto* mean = std::get_if<MeanSink>(&sink);
      return mean && mean->value == key;
    });
  });
}

void check_value(const Plan& plan, const Job& job, const FollowedValue& value,
                 const Location& location) {
  const bool own = value.job.empty();
  location.require(job.train, "a predict job follows a value");
  location.require(value.every_steps >= 0 && value.every_epochs >= 0 &&
                       (value.every_steps > 0) + (value.every_epochs > 0) == (own ? 1 : 0),
                   "invalid span of {} steps, {} epochs", value.every_steps, value.every_epochs);
  location.require(value.every_epochs == 0 || !job.datasets.empty(),
                   "a span of epochs requires a dataset");
  const bool called =
      std::ranges::find(job.run.also, value.job, &SubJob::job) != job.run.also.end();
  location.require(own || called, "a value of job `{}`, which is not called", value.job);
  const Job& maker = own ? job : *std::ranges::find(plan.jobs, value.job, &Job::name);
  location.require(is_made(maker, value.key()), "no hook of job `{}` makes it", maker.name);
}

}  // namespace

void check_followed(const Plan& plan, const Job& job, const Location& location) {
  visit_followed(job, [&](const FollowedValue& value) {
    check_value(plan, job, value, location.at("followed value", value.text));
  });
  if (job.run.early_stopping) {
    const EarlyStopping& stopping = *job.run.early_stopping;
    location.require(stopping.patience >= 1 && stopping.patience <= kMostSteps &&
                         stopping.min_delta >= 0 && std::isfinite(stopping.min_delta),
                     "invalid early stopping: patience {}, min_delta {}", stopping.patience,
                     stopping.min_delta);
  }
  if (!job.optimizer) return;
  const Schedule& schedule = job.optimizer->learning_rate;
  location.require(
      std::holds_alternative<schedules::Plateau>(schedule.function) == schedule.follows.has_value(),
      "learning rate: plateau requires a followed value, and no other takes one");
}

}  // namespace flow::plan
