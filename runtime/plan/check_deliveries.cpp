// What leaves a job: its return, hooks and their sinks.
#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/number_format.h"
#include "runtime/base/text.h"
#include "runtime/plan/check_job.h"
#include "runtime/plan/environment_text.h"
#include "runtime/plan/names.h"

namespace flow::plan {
namespace {

void check_print(const PrintSink& print, const Site& site) {
  site.require(std::isfinite(print.scale), "a print sink scales by {}", print.scale);
  site.require(print.every >= 1, "a print sink prints every {}", print.every);
  site.require(print.format == "numpy" || is_number_format(print.format),
               "the print format `{}` formats no number", print.format);
}

/// Names and words go to the system, where a NUL ends them.
bool holds_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

void check_command(const CommandSink& command, const Site& site) {
  site.require(!command.run.empty() && !command.run[0].empty(), "a command runs nothing");
  site.require(!command.shell || command.run.size() == 1, "a shell is given {} lines",
               command.run.size());
  for (const std::string& word : command.run)
    site.require(!holds_nul(word), "a command's word holds a NUL");
  for (const auto& [name, value] : command.env) {
    site.require(is_name(name), "a command's environment has no room for the name `{}`", name);
    site.require(!holds_nul(value), "`{}` of a command's environment holds a NUL", name);
    site.require(
        environment_parts(value).has_value(),
        "`{}` of a command's environment has a `$` that begins neither `$$` nor `$env(NAME)`",
        name);
  }
  site.require(!command.timeout || (*command.timeout > 0 && *command.timeout <= kLongestTimeout),
               "a command is given {} seconds", command.timeout.value_or(0));
  site.require(!command.ack || command.mode == CommandSink::Mode::kStream,
               "a command that is spawned for each event acknowledges none");
}

void check_sinks(const std::vector<Sink>& sinks, const Site& site) {
  for (const Sink& sink : sinks) {
    if (const auto* print = std::get_if<PrintSink>(&sink)) check_print(*print, site);
    if (const auto* command = std::get_if<CommandSink>(&sink)) check_command(*command, site);
  }
}

/// What goes out device by device is cut along its rows.
void check_parts(const Job& job, TensorId id, const Site& site) {
  const Tensor& tensor = job[id];
  site.require(tensor.rows <= 0 && (tensor.rows < 0 || tensor.shape[0] % job.devices == 0),
               "`{}` of {} is not shared by {} devices", tensor.name, tensor.shape.str(),
               job.devices);
}

void check_return_value(const Job& job, const ReturnValue& value, const Site& site) {
  using Kind = ReturnValue::Kind;
  site.require(value.is_leaf() == value.items.empty(),
               "a returned array holds nothing, all else does");
  site.require(value.keys.size() == (value.kind == Kind::kDict ? value.items.size() : 0),
               "{} keys for {} returned values", value.keys.size(), value.items.size());
  site.require(!value.is_leaf() || is_safe_name(value.name), "a returned array is called `{}`",
               value.name);
  if (value.kind == Kind::kListNumpy) check_parts(job, value.tensor, site);
  std::set<std::string_view> keys;
  for (const std::string& key : value.keys) {
    site.require(is_safe_key(key), "the returned key `{}` cannot name a folder", key);
    site.require(keys.insert(key).second, "the returned key `{}` stands twice", key);
  }
  for (const ReturnValue& item : value.items) check_return_value(job, item, site);
}

void check_hook(const Job& job, const Hook& hook, const Site& site) {
  site.require(is_safe_name(hook.name), "this cannot be a name");
  site.require(job.train || hook.kind == Hook::Kind::kWatch, "gradients in a predict job");
  site.require(std::isfinite(hook.factor), "a factor of {}", hook.factor);
  const DType dtype = job[hook.tensor].dtype;
  site.require(hook.factor == 1 || dtype == DType::kFloat32 || dtype == DType::kFloat64,
               "a factor of {} for {}", hook.factor, name_of(dtype));
  if (hook.per_device) check_parts(job, hook.tensor, site);
  site.require(hook.scope.empty() == hook.op.empty(), "a scope and an op come together");
  site.require(hook.scope.empty() || (is_safe_name(hook.scope) && is_safe_name(hook.op)),
               "the scope `{}` or the op `{}` cannot be a name", hook.scope, hook.op);
  site.require(!hook.steps.empty(), "it never fires");
  for (const StepRange& range : hook.steps)
    site.require(0 <= range.first && range.first < range.end && range.stride >= 1,
                 "steps {}..{}/{}", range.first, range.end, range.stride);
  check_sinks(hook.sinks, site);
}

/// Two hooks must not write one file.
void check_outputs(const Job& job, const Site& site) {
  std::set<std::pair<Hook::Kind, std::string_view>> writers;
  for (const Hook& hook : job.hooks) {
    const auto is_npy = [](const Sink& sink) { return std::holds_alternative<NpySink>(sink); };
    if (std::ranges::none_of(hook.sinks, is_npy)) continue;
    site.at("hook", hook.name)
        .require(writers.emplace(hook.kind, hook.name).second, "another hook writes this too");
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
