// What leaves a job: its return, hooks and their sinks.
#include <algorithm>
#include <cmath>
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

/// The system ends names and words at a NUL.
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

/// A tensor that the metric can be computed from.
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

/// The metric that a sink sums up, or null.
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

/// A per-device value is split along its rows.
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

/// Two hooks must not write one file.
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

}  // namespace flow::plan
