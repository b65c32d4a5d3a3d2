// Binds hooks and returns to values of the graph, and checks that a variable has the same shape in
// all jobs.
#include "compiler/job/bind/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/condition.h"
#include "runtime/plan/model/precision.h"

namespace flow::job {
namespace {

class Binder {
 public:
  Binder(Reader& reader, Instance& instance, const Job& job)
      : reader_(reader), instance_(instance), job_(job) {}

  Bindings run() {
    bound_.complete = !instance_.has_error();
    bound_.context.low_precision = plan::low_precision_of(job_.precision);
    if (job_.returns) bind_return(job_.returns->value);
    for (const Hook& hook : job_.hooks) bind_hook(hook);
    check_outputs();
    if (job_.train) bind_training();
    if (job_.loop && bound_.complete) bound_.complete = bind_loop(reader_, instance_, job_, bound_);
    return std::move(bound_);
  }

 private:
  void bind_return(const ReturnValue& value) {
    for (const ReturnValue& item : value.items) bind_return(item);
    if (!value.items.empty()) return;
    const Resolved found = instance_.require({value.name, value.span}, "`returns`");
    bound_.returned.push_back(found.value);
    if (!found.value.valid()) {
      bound_.complete = false;
      return;
    }
    instance_.graph.results.push_back(found.value);
    if (value.kind == plan::ReturnValue::Kind::kListNumpy)
      check_parts(found.value, value.span);
    else
      check_whole(found.value, value.name, value.span);
  }

  /// Reports a value that differs between shards, which is not an array of the batch.
  void check_whole(ir::ValueId id, const std::string& name, Span span) {
    if (!instance_.graph.is_own(id)) return;
    reader_
        .error(Diagnosis::kOwnOfShards, span,
               "each of {} shards has its own `{}`; expected the type ListNumpy",
               instance_.graph.shards, name)
        .with_hint("add `type: ListNumpy` for an array of each shard");
  }

  /// Checks a value that is delivered separately for each device. Its parts are cut along the batch
  /// axis, which must be the first axis.
  void check_parts(ir::ValueId id, Span span) {
    const ir::Value& value = instance_.graph[id];
    if (value.batch_axis > 0)
      reader_
          .error(Diagnosis::kPlacement, span,
                 "the batch axis of `{}` {} is {}; expected axis 0 for ListNumpy", value.name,
                 value.shape.str(), value.batch_axis)
          .with_hint("use `transpose` to move it to the front");
  }

  /// Checks a condition on the norm of the gradients, which exists only if the optimizer computes
  /// it.
  void check_condition(const Hook& hook) {
    plan::ConditionError error;
    const auto condition = plan::parse_condition(*hook.plan.when, error);
    const bool known = job_.optimizer && (job_.optimizer->clip_norm || job_.optimizer->norm);
    if (known || !condition || !condition->reads(plan::Statistic::kGradientNorm)) return;
    auto& reported =
        reader_.error(Diagnosis::kCondition, hook.when_span,
                      job_.train ? "the optimizer does not compute `gradient_norm`"
                                 : "a predict job has no gradients for `gradient_norm`");
    if (job_.train)
      reported.with_hint(
          "add `norm: true` to `optimizer`; `norm` in a condition is that of the watched tensor");
  }

  void bind_hook(const Hook& hook) {
    if (hook.plan.when) check_condition(hook);
    if (hook.kind == Hook::Kind::kWatchScope) return bind_scope(hook);
    const bool diff = hook.kind == Hook::Kind::kWatchDiff;
    if (diff && !job_.train) {
      reader_.error(Diagnosis::kNoGradient, hook.pattern.span, "predict job `{}` has no gradients",
                    job_.name.text);
      return;
    }
    if (is_glob(hook.pattern.text)) return bind_glob(hook);
    const std::string what = hook.followed ? fmt::format("job `{}`", job_.name.text)
                             : diff        ? "`watch_diff`"
                                           : "`watch`";
    const Resolved found = instance_.require(hook.pattern, what);
    if (!found.value.valid()) return;
    if (diff && !is_float(instance_.graph[found.value].dtype)) {
      reader_.error(Diagnosis::kNoGradient, hook.pattern.span,
                    "`{}` is {}; expected a float tensor", hook.pattern.text,
                    name_of(instance_.graph[found.value].dtype));
      return;
    }
    watch(hook, kind_of(hook), hook.output ? hook.output->text : hook.pattern.text, found.value);
  }

  /// Watches everything under the name: the values, then the gradients of the values that can have
  /// one.
  void bind_scope(const Hook& hook) {
    const std::string& scope = hook.pattern.text;
    const auto is_inside = [&scope](const std::string& name) {
      // A name with a colon, such as "moving_mean:update", belongs to an update and does not appear
      // in the file.
      return name.find(':') == std::string::npos &&
             (name == scope || name.starts_with(scope + "/") || name.starts_with(scope + "."));
    };
    std::vector<ir::ValueId> made;
    for (size_t i = 0; i < instance_.graph.values.size(); ++i) {
      const ir::Value& value = instance_.graph.values[i];
      if (is_inside(value.name) && value.role != plan::Role::kInput) made.push_back(ir::ValueId(i));
    }
    std::vector<std::string> names = instance_.names();
    for (const std::string& name : names)
      if (is_inside(name)) instance_.mark_read(name);
    if (made.empty() && !instance_.has_error()) {
      std::erase_if(names, [this](const std::string& name) { return !is_made(name); });
      reader_.error(Diagnosis::kNothingMatched, hook.pattern.span, "no tensor under `{}`", scope)
          .with_hint(suggestion(scope, names, "available names:"));
    }
    for (const ir::ValueId value : made)
      watch(hook, plan::Hook::Kind::kWatch, instance_.graph[value].name, value);
    if (!hook.diffs || !job_.train) return;
    for (const ir::ValueId value : made)
      watch(hook, plan::Hook::Kind::kWatchDiff, instance_.graph[value].name, value);
  }

  bool is_made(const std::string& name) const {
    const ir::ValueId value = instance_.find(name).value;
    return value.valid() && instance_.graph[value].role != plan::Role::kInput;
  }

  std::string maker_of(ir::ValueId id) const {
    const ir::Graph& graph = instance_.graph;
    if (const ir::Node* producer = graph.producer_of(id)) return std::string(producer->op->name);
    return graph[id].role == plan::Role::kInput ? "input" : "variable";
  }

  static plan::Hook::Kind kind_of(const Hook& hook) {
    return hook.kind == Hook::Kind::kWatchDiff ? plan::Hook::Kind::kWatchDiff
                                               : plan::Hook::Kind::kWatch;
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
      const bool diff = hook.kind == Hook::Kind::kWatchDiff;
      if (!found.value.valid() || (diff && !is_float(instance_.graph[found.value].dtype))) continue;
      watch(hook, kind_of(hook), hook.output ? hook.output->text : name, found.value);
    }
    if (matched > 0 || instance_.has_error()) return;
    const std::string& glob = hook.pattern.text;
    const bool is_shallow = glob.find('*') != glob.npos && glob.find("**") == glob.npos;
    reader_.error(Diagnosis::kNothingMatched, hook.pattern.span, no_match("tensor", glob))
        .with_hint(is_shallow ? "use `**` to match `/` too; `*` matches within one part of a name"
                              : "");
  }

  void watch(const Hook& hook, plan::Hook::Kind kind, std::string name, ir::ValueId value) {
    if (hook.plan.per_device)
      check_parts(value, hook.pattern.span);
    else
      check_whole(value, name, hook.pattern.span);
    bound_.watched.push_back({&hook, kind, std::move(name), maker_of(value), value});
    if (kind != plan::Hook::Kind::kWatch) return;
    (hook.metric ? instance_.graph.results : instance_.graph.watched).push_back(value);
  }

  static bool writes_npy(const Hook& hook) {
    return std::ranges::any_of(hook.plan.sinks, [](const plan::Sink& sink) {
      return std::holds_alternative<plan::NpySink>(sink);
    });
  }

  /// Removes tensors from the hooks of globs that only write .npy files, if another hook writes
  /// these tensors by name.
  void leave_out_what_is_named() {
    std::map<std::pair<plan::Hook::Kind, std::string>, ir::ValueId> named;
    for (const Watched& watched : bound_.watched)
      if (can_be_named(*watched.hook) && writes_npy(*watched.hook))
        named.try_emplace({watched.kind, watched.name}, watched.value);
    std::erase_if(bound_.watched, [&](const Watched& watched) {
      const Hook& hook = *watched.hook;
      const auto found = named.find({watched.kind, watched.name});
      return !can_be_named(hook) && hook.plan.sinks.size() == 1 && writes_npy(hook) &&
             !hook.plan.check_finite && found != named.end() && found->second == watched.value;
    });
  }

  /// Reports two hooks that would write the same .npy file.
  void check_outputs() {
    leave_out_what_is_named();
    std::map<std::pair<plan::Hook::Kind, std::string>, const Hook*> writers;
    std::set<std::pair<const Hook*, const Hook*>> reported;
    for (const Watched& watched : bound_.watched) {
      if (!writes_npy(*watched.hook)) continue;
      const auto [at, fresh] = writers.try_emplace({watched.kind, watched.name}, watched.hook);
      if (fresh || !reported.insert({at->second, watched.hook}).second) continue;
      const bool itself = at->second == watched.hook;
      Diag& diag = reader_.error(
          Diagnosis::kOutputTaken, watched.hook->pattern.span,
          itself ? fmt::format("several tensors would be written to `{}`", watched.name)
                 : fmt::format("two hooks write `{}`", watched.name));
      if (!itself) diag.label(at->second->pattern.span, "the other hook");
      const bool named = can_be_named(*watched.hook) || can_be_named(*at->second);
      diag.with_hint(itself  ? "use `as:` for a single tensor only"
                     : named ? "rename the output of one of them with `as: NAME`"
                             : "set `to: none` or another sink in one of them");
    }
  }

  /// Returns true if `as:` applies to the hook.
  static bool can_be_named(const Hook& hook) {
    return hook.kind != Hook::Kind::kWatchScope && !is_glob(hook.pattern.text);
  }

  void bind_training() {
    bound_.complete = bound_.complete && job_.optimizer && job_.optimizer->complete;
    if (!job_.optimizer || job_.optimizer->minimize.empty()) return;
    auto training = bind_optimizer(reader_, instance_, job_);
    bound_.complete = bound_.complete && training;
    if (!training) return;
    for (const Watched& watched : bound_.watched)
      if (watched.kind == plan::Hook::Kind::kWatchDiff &&
          is_float(instance_.graph[watched.value].dtype))
        training->gradients_of.push_back(watched.value);
    bound_.context.training = std::move(training);
  }

  Reader& reader_;
  Instance& instance_;
  const Job& job_;
  Bindings bound_;
};

/// The tensors that one hook watches.
struct WatchedByHook {
  bool some = false;              // whether any of them can be delivered
  std::vector<std::string> none;  // watched gradients that do not exist
};

}  // namespace

Bindings bind(Reader& reader, Instance& instance, const Job& job) {
  return Binder(reader, instance, job).run();
}

void check_gradients(Reader& reader, const ir::Graph& graph, const Job& job, Bindings& bindings) {
  const auto has_none = [&](const Watched& watched) {
    return watched.kind == plan::Hook::Kind::kWatchDiff &&
           !graph.gradient_of(watched.value).valid();
  };
  std::map<const Hook*, WatchedByHook> hooks;
  for (const Watched& watched : bindings.watched) {
    WatchedByHook& found = hooks[watched.hook];
    if (has_none(watched))
      found.none.push_back("`" + watched.name + "`");
    else
      found.some = true;
  }
  for (const Hook& hook : job.hooks) {
    const auto found = hooks.find(&hook);
    if (found == hooks.end()) continue;
    if (hook.kind == Hook::Kind::kWatchScope && !found->second.none.empty())
      reader.diags.warning(Diagnosis::kScopeWithoutGradient, hook.pattern.span,
                           fmt::format("the scope skips tensors without a gradient: {}",
                                       join(found->second.none, ", ")));
    // A glob may match some tensors without a gradient, but at least one of them needs a gradient.
    if (found->second.some) continue;
    reader.error(Diagnosis::kNoGradient, hook.pattern.span, "the loss `{}` does not depend on `{}`",
                 bindings.context.training->loss_name(), hook.pattern.text);
  }
  std::erase_if(bindings.watched, has_none);
}

void SharedVariables::check(Reader& reader, const Job& job, const ir::Graph& graph) {
  for (const ir::Variable& variable : graph.variables) {
    const ir::Value& value = graph[variable.value];
    const auto [first, fresh] =
        first_.try_emplace(value.name, First{job.name.text, value.shape, value.span});
    if (fresh || first->second.shape == value.shape) continue;
    reader
        .error(Diagnosis::kSharedVariable, value.span,
               "variable `{}` has shape {} in `{}`, but {} in `{}`", value.name, value.shape.str(),
               job.name.text, first->second.shape.str(), first->second.job)
        .label(first->second.span, fmt::format("in `{}`", first->second.job))
        .label(job.name.span, "this job")
        .with_hint(
            "use inputs of the same size, or rename the entries: jobs share variables by name");
  }
}

}  // namespace flow::job
