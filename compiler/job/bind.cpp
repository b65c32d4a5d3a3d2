// Hooks, returns and the optimizer meet the graph.
#include "compiler/job/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/text.h"

namespace flow::job {
namespace {

bool is_glob(std::string_view pattern) { return pattern.find('*') != std::string_view::npos; }

class Binder {
 public:
  Binder(Reader& reader, Instance& instance, const Job& job)
      : reader_(reader), instance_(instance), job_(job) {}

  Bindings run() {
    bound_.complete = !instance_.poisoned();
    bound_.context.float64 = job_.precision == "float64";
    if (job_.returns) bind_return(job_.returns->value);
    for (const Hook& hook : job_.hooks) bind_hook(hook);
    check_outputs();
    if (job_.train) bind_training();
    return std::move(bound_);
  }

 private:
  void bind_return(const ReturnValue& value) {
    for (const ReturnValue& item : value.items) bind_return(item);
    if (!value.items.empty()) return;
    const Resolved found = instance_.require({value.name, value.span}, "`returns`");
    bound_.returned.push_back(found.value);
    if (found.value.valid())
      instance_.graph.results.push_back(found.value);
    else
      bound_.complete = false;
  }

  void bind_hook(const Hook& hook) {
    const bool diff = hook.kind == plan::Hook::Kind::kWatchDiff;
    if (diff && !job_.train) {
      reader_.error(Diagnosis::kNoGradient, hook.pattern.span,
                    fmt::format("`{}` is a predict job, which has no gradients", job_.name.text));
      return;
    }
    if (is_glob(hook.pattern.text)) return bind_glob(hook);
    const Resolved found = instance_.require(hook.pattern, diff ? "`watch_diff`" : "`watch`");
    if (!found.value.valid()) return;
    if (diff && !is_float(instance_.graph[found.value].dtype)) {
      reader_.error(Diagnosis::kNoGradient, hook.pattern.span,
                    fmt::format("`{}` is {}, which has no gradient", hook.pattern.text,
                                name_of(instance_.graph[found.value].dtype)));
      return;
    }
    watch(hook, hook.output ? hook.output->text : hook.pattern.text, found.value, false);
  }

  void bind_glob(const Hook& hook) {
    const bool ports = hook.pattern.text.find('.') != std::string::npos;
    size_t matched = 0;
    for (const std::string& name : instance_.names()) {
      if (!ports && name.find('.') != std::string::npos) continue;
      if (!glob_match(hook.pattern.text, name)) continue;
      ++matched;
      instance_.mark_read(name);
      const Resolved found = instance_.find(name);
      const bool diff = hook.kind == plan::Hook::Kind::kWatchDiff;
      if (!found.value.valid() || (diff && !is_float(instance_.graph[found.value].dtype))) continue;
      watch(hook, hook.output ? hook.output->text : name, found.value, true);
    }
    if (matched == 0 && !instance_.poisoned())
      reader_
          .error(Diagnosis::kNothingMatched, hook.pattern.span,
                 fmt::format("no tensor matches `{}`", hook.pattern.text))
          .with_hint("`*` stays inside one part of a name, `**` crosses `/`");
  }

  void watch(const Hook& hook, std::string name, ir::ValueId value, bool by_glob) {
    bound_.watched.push_back({&hook, std::move(name), value, by_glob});
    if (hook.kind == plan::Hook::Kind::kWatch) instance_.graph.watched.push_back(value);
  }

  /// Two hooks that write .npy files must not write the same one.
  void check_outputs() {
    std::map<std::pair<plan::Hook::Kind, std::string>, const Hook*> writers;
    for (const Watched& watched : bound_.watched) {
      const bool writes = std::ranges::any_of(watched.hook->sinks, [](const plan::Sink& sink) {
        return std::holds_alternative<plan::NpySink>(sink);
      });
      if (!writes) continue;
      const auto [at, fresh] =
          writers.try_emplace({watched.hook->kind, watched.name}, watched.hook);
      if (fresh) continue;
      const bool itself = at->second == watched.hook;
      Diag& diag = reader_.error(
          Diagnosis::kOutputTaken, watched.hook->pattern.span,
          itself ? fmt::format("several tensors would be written as `{}`", watched.name)
                 : fmt::format("another hook writes `{}` too", watched.name));
      if (!itself) diag.label(at->second->pattern.span, "the other hook");
      diag.with_hint(itself ? "`as:` names the output of a single tensor"
                            : "`as: NAME` gives the output of one of them another name");
    }
  }

  void bind_training() {
    bound_.complete = bound_.complete && job_.optimizer && !job_.optimizer->minimize.text.empty();
    if (!job_.optimizer || job_.optimizer->minimize.text.empty()) return;
    const Optimizer& optimizer = *job_.optimizer;
    const Resolved loss = instance_.require(optimizer.minimize, "`minimize`");
    if (!loss.value.valid() || !check_loss(optimizer, loss.value)) {
      bound_.complete = false;
      return;
    }
    passes::Training training;
    training.loss = loss.value;
    training.loss_name = optimizer.minimize.text;
    training.optimizer = optimizer.type;
    training.momentum = optimizer.momentum;
    training.nesterov = optimizer.nesterov;
    training.span = optimizer.minimize.span;
    for (const ir::Variable& variable : instance_.graph.variables)
      if (variable.trainable) training.variables.push_back(variable.value);
    for (const Watched& watched : bound_.watched)
      if (watched.hook->kind == plan::Hook::Kind::kWatchDiff)
        training.gradients_of.push_back(watched.value);
    if (training.variables.empty() && bound_.complete) {
      reader_.error(Diagnosis::kNoVariables, optimizer.minimize.span,
                    fmt::format("`{}` has no trainable variable", job_.name.text));
      bound_.complete = false;
    }
    bound_.context.training = std::move(training);
  }

  bool check_loss(const Optimizer& optimizer, ir::ValueId loss) {
    const ir::Value& value = instance_.graph[loss];
    if (is_float(value.dtype) && value.role == plan::Role::kResult) return true;
    reader_.error(Diagnosis::kNotALoss, optimizer.minimize.span,
                  is_float(value.dtype)
                      ? fmt::format("`{}` is not computed, it cannot be minimised", value.name)
                      : fmt::format("`{}` is {}, a loss is a float tensor", value.name,
                                    name_of(value.dtype)));
    return false;
  }

  Reader& reader_;
  Instance& instance_;
  const Job& job_;
  Bindings bound_;
};

}  // namespace

Bindings bind(Reader& reader, Instance& instance, const Job& job) {
  return Binder(reader, instance, job).run();
}

void check_gradients(Reader& reader, const ir::Graph& graph, const Job& job, Bindings& bindings) {
  const auto has_none = [&](const Watched& watched) {
    return watched.hook->kind == plan::Hook::Kind::kWatchDiff &&
           !graph.gradient_of(watched.value).valid();
  };
  for (const Hook& hook : job.hooks) {
    const auto of_hook = [&](const Watched& watched) { return watched.hook == &hook; };
    const auto first = std::ranges::find_if(bindings.watched, of_hook);
    if (first == bindings.watched.end()) continue;
    // A glob may match some tensors without a gradient, but not only such.
    const bool some = std::ranges::any_of(
        bindings.watched, [&](const Watched& w) { return of_hook(w) && !has_none(w); });
    if (some) continue;
    reader.error(Diagnosis::kNoGradient, hook.pattern.span,
                 fmt::format("the loss `{}` does not depend on `{}`", job.optimizer->minimize.text,
                             hook.pattern.text));
  }
  std::erase_if(bindings.watched, has_none);
}

plan::DeviceKind device_of(Reader& reader, const Placement& placement, const Target& target) {
  const bool gpu = target.device == plan::DeviceKind::kGpu;
  if (placement.devices > target.count)
    reader
        .error(Diagnosis::kPlacement, placement.ids_span,
               fmt::format("`ids` needs {} devices, this target has {} ({})", placement.devices,
                           target.count, gpu ? "gpu" : "cpu"))
        .with_hint(target.count == 1 ? "write \"0:0\"" : "name fewer devices");
  if (placement.type == "cpu" || (target.forced && !gpu)) return plan::DeviceKind::kCpu;
  return placement.type == "gpu" ? plan::DeviceKind::kGpu : target.device;
}

}  // namespace flow::job
