// What leaves a job: its return, hooks and their sinks.
#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/number_format.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/check_job.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::plan {
namespace {

void check_print(const PrintSink& print, const Site& site) {
  site.require(std::isfinite(print.scale), "print sink: scale is {}; expected a finite number",
               print.scale);
  site.require(print.every >= 1, "print sink: `every` is {}; expected at least 1", print.every);
  site.require(print.format == "numpy" || is_number_format(print.format),
               "print sink: invalid number format `{}`", print.format);
}

/// The system ends names and words at a NUL.
bool holds_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

void check_command(const CommandSink& command, const Site& site) {
  site.require(!command.run.empty() && !command.run[0].empty(), "command sink: no program");
  site.require(!command.shell || command.run.size() == 1,
               "command sink: {} shell lines; expected 1", command.run.size());
  for (const std::string& word : command.run)
    site.require(!holds_nul(word), "command sink: an argument contains a NUL byte");
  for (const auto& [name, value] : command.env) {
    site.require(is_name(name), "command sink: invalid environment variable name `{}`", name);
    site.require(!holds_nul(value), "command sink: environment variable `{}` contains a NUL byte",
                 name);
    site.require(
        environment_parts(value).has_value(),
        "command sink: invalid `$` in environment variable `{}`; expected `$$` or `$env(NAME)`",
        name);
  }
  site.require(!command.timeout || (*command.timeout > 0 && *command.timeout <= kLongestTimeout),
               "command sink: invalid timeout of {} seconds", command.timeout.value_or(0));
  site.require(!command.ack || command.mode == CommandSink::Mode::kStream,
               "command sink: `ack` requires a streaming command");
}

void check_sinks(const std::vector<Sink>& sinks, const Site& site) {
  for (const Sink& sink : sinks) {
    if (const auto* print = std::get_if<PrintSink>(&sink)) check_print(*print, site);
    if (const auto* command = std::get_if<CommandSink>(&sink)) check_command(*command, site);
  }
}

/// A per-device value is split along its rows.
void check_parts(const Job& job, TensorId id, const Site& site) {
  const Tensor& tensor = job[id];
  site.require(tensor.rows <= 0 && (tensor.rows < 0 || tensor.shape[0] % job.devices == 0),
               "cannot split `{}` of {} among {} devices", tensor.name, tensor.shape.str(),
               job.devices);
}

void check_return_value(const Job& job, const ReturnValue& value, const Site& site) {
  using Kind = ReturnValue::Kind;
  site.require(value.is_leaf() == value.items.empty(),
               "a returned array has items, or a returned container is empty");
  site.require(value.keys.size() == (value.kind == Kind::kDict ? value.items.size() : 0),
               "{} keys for {} returned values", value.keys.size(), value.items.size());
  site.require(!value.is_leaf() || is_safe_name(value.name),
               "invalid name `{}` for a returned array", value.name);
  if (value.kind == Kind::kListNumpy) check_parts(job, value.tensor, site);
  std::set<std::string_view> keys;
  for (const std::string& key : value.keys) {
    site.require(is_safe_key(key), "invalid returned key `{}`; expected a file name", key);
    site.require(keys.insert(key).second, "duplicate returned key `{}`", key);
  }
  for (const ReturnValue& item : value.items) check_return_value(job, item, site);
}

void check_hook(const Job& job, const Hook& hook, const Site& site) {
  site.require(is_safe_name(hook.name), "invalid name");
  site.require(job.train || hook.kind == Hook::Kind::kWatch, "a predict job has no gradients");
  site.require(std::isfinite(hook.factor), "factor is {}; expected a finite number", hook.factor);
  const DType dtype = job[hook.tensor].dtype;
  site.require(hook.factor == 1 || dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "factor is {} for dtype {}; expected 1", hook.factor, name_of(dtype));
  if (hook.per_device) check_parts(job, hook.tensor, site);
  site.require(hook.scope.empty() == hook.op.empty(), "scope and op require each other");
  site.require(hook.scope.empty() || (is_safe_name(hook.scope) && is_safe_name(hook.op)),
               "invalid scope `{}` or op `{}`", hook.scope, hook.op);
  site.require(!hook.steps.empty(), "never fires: no steps");
  for (const StepRange& range : hook.steps)
    site.require(0 <= range.first && range.first < range.end && range.stride >= 1,
                 "invalid steps {}..{}/{}", range.first, range.end, range.stride);
  check_sinks(hook.sinks, site);
}

/// Two hooks must not write one file.
void check_outputs(const Job& job, const Site& site) {
  std::set<std::pair<Hook::Kind, std::string_view>> writers;
  for (const Hook& hook : job.hooks) {
    const auto is_npy = [](const Sink& sink) { return std::holds_alternative<NpySink>(sink); };
    if (std::ranges::none_of(hook.sinks, is_npy)) continue;
    site.at("hook", hook.name)
        .require(writers.emplace(hook.kind, hook.name).second, "another hook writes the same file");
  }
}

}  // namespace

void check_deliveries(const Job& job, const Site& site) {
  if (job.returns) {
    const Site here = site.at("return", job.returns->type);
    check_return_value(job, job.returns->value, here);
    check_sinks(job.returns->sinks, here);
  }
  for (const Hook& hook : job.hooks) check_hook(job, hook, site.at("hook", hook.name));
  check_outputs(job, site);
}

}  // namespace flow::plan
