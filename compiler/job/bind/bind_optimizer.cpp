// Binds the optimizer to the graph: the losses, the trained variables, and the variables with
// weight decay. Also warns about cross entropies whose logits come first, as in PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "compiler/job/bind/bind.h"
#include "ops/core/spec.h"
#include "runtime/base/names.h"

namespace flow::job {
namespace {

/// Returns the weight decay, or 0 for an optimizer without weight decay.
double weight_decay_of(const plan::OptimizerRule& rule) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.weight_decay; })
          return one.weight_decay;
        else
          return 0.0;
      },
      rule);
}

passes::LossScale bound(const StaticLossScale& scale) { return {.initial = scale.value}; }

passes::LossScale bound(const DynamicLossScale& scale) {
  return {scale.initial, true, scale.growth_factor, scale.backoff_factor,
          static_cast<double>(scale.growth_interval)};
}

class OptimizerBinder {
 public:
  OptimizerBinder(Reader& reader, Instance& instance, const Job& job)
      : reader_(reader), instance_(instance), job_(job), optimizer_(*job.optimizer) {}

  std::optional<passes::Training> run() {
    bind_losses();
    bind_variables();
    if (!good_ || !optimizer_.complete) return {};
    bind_update();
    return std::move(training_);
  }

 private:
  void bind_losses() {
    for (const Name& name : optimizer_.minimize) {
      const Resolved loss = instance_.require(name, "`minimize`");
      if (loss.value.valid() && is_loss(name, loss.value))
        training_.losses.push_back({loss.value, name.text, name.span});
      else
        good_ = false;
    }
  }

  bool is_loss(const Name& name, ir::ValueId loss) {
    const ir::Value& value = instance_.graph[loss];
    if (is_float(value.dtype) && value.role == plan::Role::kResult) return true;
    reader_.error(
        Diagnosis::kNotALoss, name.span,
        is_float(value.dtype)
            ? fmt::format("`{}` is not computed; expected the result of an op", value.name)
            : fmt::format("`{}` is {}; expected a float tensor", value.name, name_of(value.dtype)));
    return false;
  }

  void bind_variables() {
    std::vector<ir::ValueId> trainable;
    for (const ir::Variable& variable : instance_.graph.variables)
      if (variable.trainable) trainable.push_back(variable.value);
    if (trainable.empty() && !instance_.has_error()) {
      reader_.error(Diagnosis::kNoVariables, optimizer_.minimize.front().span,
                    "job `{}` has no trainable variable", job_.name.text);
      good_ = false;
    }
    training_.variables = optimizer_.variables
                              ? matching(trainable, *optimizer_.variables, "trainable variable")
                              : trainable;
    check_stored();
    bind_rate_scales();
    bind_weight_decays();
    bind_matrices();
  }

  /// Reports trained variables that are stored in 16 bits, which cannot represent changes as small
  /// as an update. Reports one error for each `variable_dtype:`, which names the first of its
  /// trained variables.
  void check_stored() {
    std::vector<Span> reported;
    for (const ir::ValueId id : training_.variables) {
      const ir::Variable& variable = *instance_.graph.variable_of(id);
      if (!variable.stored || std::ranges::count(reported, variable.stored_at) > 0) continue;
      reported.push_back(variable.stored_at);
      report_stored(variable);
    }
  }

  void report_stored(const ir::Variable& variable) {
    const ir::Value& value = instance_.graph[variable.value];
    reader_
        .error(Diagnosis::kBadAttribute, variable.stored_at,
               "`variable_dtype` applies to frozen variables; `{}` is trained", value.name)
        .label(value.span, "its entry")
        .with_hint(
            "add `trainable: false`, restrict `variables` of the optimizer, or write "
            "`variable_dtype: job` on that entry");
    good_ = false;
  }

  /// Sets the factors on the learning rate. If several patterns match a variable, the last one
  /// applies.
  void bind_rate_scales() {
    training_.rate_scales.assign(training_.variables.size(), 1);
    for (const auto& [glob, scale] : optimizer_.learning_rate_scales)
      set_where(training_.rate_scales, {glob}, scale);
  }

  void bind_weight_decays() {
    const double decay = weight_decay_of(optimizer_.rule);
    training_.weight_decays.assign(training_.variables.size(), optimizer_.includes ? 0 : decay);
    if (optimizer_.includes) set_where(training_.weight_decays, *optimizer_.includes, decay);
    if (optimizer_.excludes) set_where(training_.weight_decays, *optimizer_.excludes, 0);
  }

  /// Determines which variables muon updates.
  void bind_matrices() {
    const std::vector<ir::ValueId> others =
        optimizer_.adamw ? matching(training_.variables, *optimizer_.adamw, "trained variable")
                         : std::vector<ir::ValueId>();
    for (const ir::ValueId id : training_.variables)
      training_.by_muon.push_back(instance_.graph[id].shape.rank() == 2 &&
                                  std::ranges::count(others, id) == 0);
  }

  /// Sets those of `numbers`, which has one element for each trained variable, whose variables
  /// match a pattern.
  void set_where(std::vector<double>& numbers, const std::vector<Name>& globs, double number) {
    const auto matched = matching(training_.variables, globs, "trained variable");
    for (size_t i = 0; i < numbers.size(); ++i)
      if (std::ranges::count(matched, training_.variables[i]) > 0) numbers[i] = number;
  }

  /// Returns the values of `all` that a pattern matches, in their order. Reports patterns that
  /// match none of them.
  std::vector<ir::ValueId> matching(const std::vector<ir::ValueId>& all,
                                    const std::vector<Name>& globs, std::string_view what) {
    const auto matches = [&](const Name& glob, ir::ValueId id) {
      return glob_match(glob.text, instance_.graph[id].name);
    };
    for (const Name& glob : globs)
      if (std::ranges::none_of(all, [&](ir::ValueId id) { return matches(glob, id); }))
        report_no_match(glob, all, what);
    std::vector<ir::ValueId> matched;
    for (const ir::ValueId id : all)
      if (std::ranges::any_of(globs, [&](const Name& glob) { return matches(glob, id); }))
        matched.push_back(id);
    return matched;
  }

  void report_no_match(const Name& glob, const std::vector<ir::ValueId>& all,
                       std::string_view what) {
    if (all.empty() || instance_.has_error()) return;
    std::vector<std::string> names;
    for (const ir::ValueId id : all) names.push_back(instance_.graph[id].name);
    reader_.error(Diagnosis::kNothingMatched, glob.span, no_match(what, glob.text))
        .with_hint(suggestion(glob.text, names, "available variables:"));
    good_ = false;
  }

  void bind_update() {
    std::visit([this](const auto& rule) { bind_rule(rule); }, optimizer_.rule);
    training_.clip_norm = optimizer_.clip_norm;
    training_.clip_epsilon = optimizer_.clip_epsilon;
    training_.norm = optimizer_.norm;
    training_.clip_value = optimizer_.clip_value;
    training_.ema_decay = optimizer_.ema_decay;
    training_.lookahead = optimizer_.lookahead;
    if (!optimizer_.loss_scale) return;
    training_.job = job_.name.text;
    training_.loss_scale =
        std::visit([](const auto& scale) { return bound(scale); }, *optimizer_.loss_scale);
  }

  /// Sets the update op and its attributes, except for the weight decay, which depends on the
  /// variable.
  template <typename Rule>
  void bind_rule(const Rule& rule) {
    training_.update = rule.update_op();
    const ops::OpSpec& op = *ops::find_spec(training_.update);
    plan::for_each_field<Rule>([&](const auto& field) {
      using V = typename std::decay_t<decltype(field)>::Value;
      if constexpr (!std::is_enum_v<V>)  // ops have no enum attributes
        if (field.name != "weight_decay" && op.attribute(field.name))
          training_.attributes.set(field.name, rule.*field.member);
    });
    if constexpr (requires { rule.initial_accumulator_value; })
      training_.slot_start = rule.initial_accumulator_value;
    if constexpr (requires { rule.epsilon_inside; })
      if (!rule.epsilon_inside) training_.attributes.set("epsilon_inside", false);
    if constexpr (requires { rule.decays_gradient(); })
      training_.decays_gradients = rule.decays_gradient();
    bind_composed(rule);
  }

  /// An update that consists of one op needs nothing else.
  void bind_composed(const auto&) {}
  void bind_composed(const plan::optimizers::Muon& rule) { training_.muon = rule; }
  void bind_composed(plan::optimizers::Adafactor rule) {
    if (rule.epsilon1 == 0)
      rule.epsilon1 = instance_.graph.compute_dtype == DType::kFloat64
                          ? std::numeric_limits<double>::epsilon()
                          : static_cast<double>(std::numeric_limits<float>::epsilon());
    training_.adafactor = rule;
  }

  Reader& reader_;
  Instance& instance_;
  const Job& job_;
  const Optimizer& optimizer_;
  passes::Training training_;
  bool good_ = true;
};

/// Returns, indexed by ValueId, whether gradients flow from the value to a trained variable.
std::vector<bool> find_trained(const ir::Graph& graph, const std::vector<ir::ValueId>& variables) {
  std::vector<bool> trained(graph.values.size());
  for (const ir::ValueId variable : variables) trained[variable.index()] = true;
  for (const ir::Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(
        node.operands, [&](ir::ValueId id) { return id.valid() && trained[id.index()]; });
    for (const ir::ValueId result : node.results)
      trained[result.index()] = any && !node.op->dropped && is_float(graph[result].dtype);
  }
  return trained;
}

/// Returns true if the op takes labels and logits of the same kind, so that swapped operands cause
/// no type error.
bool takes_labels_and_logits(const ops::OpSpec& op) {
  return op.operands.size() == 2 && op.operands[0].name == "labels" &&
         op.operands[1].name == "logits" && op.operands[0].accepts == op.operands[1].accepts;
}

/// Returns the entry whose result the value is, such as `net` for "net/bias_add".
std::string entry_name(const ir::Graph& graph, ir::ValueId value) {
  const auto alias = std::ranges::find(graph.aliases, value, &ir::Alias::value);
  return alias == graph.aliases.end() ? graph[value].name : alias->name;
}

}  // namespace

std::optional<passes::Training> bind_optimizer(Reader& reader, Instance& instance, const Job& job) {
  return OptimizerBinder(reader, instance, job).run();
}

void warn_of_swapped_labels(Reader& reader, const ir::Graph& graph,
                            const std::vector<ir::ValueId>& variables) {
  const std::vector<bool> trained = find_trained(graph, variables);
  for (const ir::Node& node : graph.nodes) {
    if (!takes_labels_and_logits(*node.op)) continue;
    if (!trained[node.operands[0].index()] || trained[node.operands[1].index()]) continue;
    reader.diags
        .warning(Diagnosis::kSwappedLabels, node.span,
                 fmt::format(
                     "{}: the labels `{}` depend on trained variables, but the logits `{}` do not",
                     node.name, entry_name(graph, node.operands[0]),
                     entry_name(graph, node.operands[1])))
        .with_hint("write labels first, or use `labels: ...` and `logits: ...`");
  }
}

}  // namespace flow::job
