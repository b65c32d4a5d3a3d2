// Adds the mean loss, the optimizer's slots, and the updates of variables. Each update runs on the
// device of its variable.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/optimizer/updates.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class Updates {
 public:
  Updates(ir::Graph& graph, Context& context, Diags& diags)
      : graph_(graph),
        context_(context),
        diags_(diags),
        builder_(graph, diags),
        old_(graph.nodes.size()) {}

  void run() {
    const Training& training = *context_.training;
    add_mean_loss();
    const size_t means = graph_.nodes.size();
    context_.loss_elements = training.loss_elements(graph_);
    scale_ = 1 / (static_cast<double>(context_.loss_elements) * training.static_scale());
    for (size_t i = 0; i < training.variables.size(); ++i) add_trained(i);
    if (diags_.has_errors()) return;
    const ValueId factor = context_.loss_scale.valid() ? add_unscaling() : add_clipping();
    if (training.clip_value)
      for (Trained& trained : trained_)
        trained.gradient = clipped(trained.variable, trained.gradient);
    for (const Trained& trained : trained_) add_update(trained, factor);
    if (context_.loss_scale.valid()) add_scale_update();
    for (size_t i = means; i < graph_.nodes.size(); ++i) run_once(graph_.nodes[i]);
    place_early();
  }

 private:
  struct Trained {
    ValueId variable, gradient;
    ValueId indices;  // for a gradient of rows; otherwise invalid
    double rate_scale, weight_decay;
    const ops::OpSpec* update;
    bool by_muon;
  };

  /// Adds the trained variable i to `trained_`, unless the loss does not depend on it.
  void add_trained(size_t i) {
    const Training& training = *context_.training;
    Trained trained{training.variables[i],
                    {},
                    {},
                    training.rate_scales[i],
                    training.weight_decays[i],
                    ops::find_spec(training.update),
                    training.muon && training.by_muon[i]};
    const auto sparse =
        std::ranges::find(context_.sparse, trained.variable, &SparseGradient::variable);
    if (sparse != context_.sparse.end()) {
      trained.gradient = sparse->rows;
      trained.indices = sparse->indices;
      trained.update = sparse_update(trained);
      if (trained.update) trained_.push_back(trained);
    } else if (const ValueId gradient = graph_.gradient_of(trained.variable); gradient.valid()) {
      trained.gradient = regularized(trained.variable, gradient);
      trained_.push_back(trained);
    }
  }

  /// Returns the op that updates only the given rows. Reports an error and returns null if the
  /// optimizer cannot update rows separately.
  const ops::OpSpec* sparse_update(const Trained& trained) {
    const ir::Variable& variable = *graph_.variable_of(trained.variable);
    const auto refuse = [&](std::string_view why, std::string_view hint) {
      diags_
          .error(
              Diagnosis::kSparseGradient, *variable.sparse,
              fmt::format("`{}` has a sparse gradient, but {}", graph_[trained.variable].name, why))
          .with_hint(fmt::format("{}, or remove `sparse: true`", hint));
      return nullptr;
    };
    const ops::OpSpec* rows = trained.by_muon ? nullptr : ops::sparse_form(*trained.update);
    if (!rows)
      return refuse("the optimizer moves every row",
                    "use `sgd` without momentum, `adagrad` or `adam`");
    if (variable.l1 != 0 || variable.l2 != 0)
      return refuse("its regularizer moves every row", "remove the regularizer");
    if (trained.weight_decay != 0)
      return refuse(
          "weight decay moves every row",
          fmt::format("write `excludes: [\"{}\"]` in `optimizer`", graph_[trained.variable].name));
    return rows;
  }

  /// Makes the node run once if there are shards, because an update reads the whole gradient.
  void run_once(ir::Node& node) const { node.once = graph_.shards > 1; }

  /// Adds the mean of each loss. If there are several losses, adds the sum of the means.
  void add_mean_loss() {
    const std::vector<Loss>& losses = context_.training->losses;
    const auto mean = [&](const Loss& loss, std::string name) {
      const ValueId value = mean_of(loss, std::move(name));
      if (graph_.is_own(value)) graph_[value].combine = plan::Combine::kMean;
      return value;
    };
    const std::string name = "minimize/mean_loss";
    ValueId& sum = context_.mean_loss;
    sum = mean(losses.front(), losses.size() == 1 ? name : name + ".part1");
    for (size_t i = 1; i < losses.size(); ++i) {
      const bool last = i + 1 == losses.size();
      const ValueId part = mean(losses[i], fmt::format("{}.part{}", name, i + 1));
      builder_.place_on(graph_[sum].device);
      sum = builder_.add("add", last ? name : fmt::format("{}.sum{}", name, i + 1), {sum, part}, {},
                         losses[i].span);
      run_once(graph_.nodes.back());
    }
    graph_.results.push_back(sum);
  }

  ValueId mean_of(const Loss& loss, std::string name) {
    if (graph_[loss.value].shape.rank() == 0) return loss.value;
    builder_.place(graph_[loss.value].device, graph_.is_own(loss.value));
    const ValueId mean = builder_.add("reduce_mean", std::move(name), {loss.value}, {}, loss.span);
    builder_.compute_per_shard(ir::PerShard::kNever);
    return mean;
  }

  /// Returns the gradient plus the gradient of the regularizer. Like the gradient, the
  /// regularizer's part is not yet multiplied by `scale_`.
  ValueId regularized(ValueId id, ValueId gradient) {
    const ir::Variable& variable = *graph_.variable_of(id);
    if (variable.l1 == 0 && variable.l2 == 0) return gradient;
    return changed(id, "regularize", {gradient, id},
                   {{"l1", variable.l1 / scale_}, {"l2", variable.l2 / scale_}}, ":regularized");
  }

  /// Returns the gradient with each element clipped. The limit is divided by `scale_`, because the
  /// gradient is not yet multiplied by it.
  ValueId clipped(ValueId id, ValueId gradient) {
    const double limit = *context_.training->clip_value / scale_;
    return changed(id, "clip_by_value", {gradient}, {{"min", -limit}, {"max", limit}}, ":clipped");
  }

  /// Applies `op` to the gradient of a variable, which is the first operand.
  ValueId changed(ValueId variable, std::string_view op, std::vector<ValueId> operands,
                  const ir::Attributes& attributes, std::string_view suffix) {
    const ir::Value value = graph_[variable];
    const std::string name = fmt::format("{}{}", value.name, suffix);
    const ValueId scale = context_.loss_scale;
    builder_.place_on(value.device);
    if (!scale.valid()) return builder_.add(op, name, std::move(operands), attributes, value.span);
    // A dynamic scale changes from step to step, so it is removed before the op and applied again
    // after it.
    operands[0] = builder_.add("divide", name + ".unscaled", {operands[0], scale}, {}, value.span);
    const ValueId result =
        builder_.add(op, name + ".changed", std::move(operands), attributes, value.span);
    return builder_.add("multiply", name, {result, scale}, {}, value.span);
  }

  /// Returns the factor that clips all gradients, or an invalid id if no norm clipping is set.
  ValueId add_clipping() {
    const Training& training = *context_.training;
    if (!(training.clip_norm || training.norm) || trained_.empty()) return {};
    const ValueId factor = add_factor("clip_factor", gradients());
    return training.clip_norm ? factor : ValueId();
  }

  /// Adds the op that computes the factor, and records the norm of the gradients if it is needed.
  ValueId add_factor(std::string_view op, std::vector<ValueId> operands) {
    const Training& training = *context_.training;
    builder_.place_on(device_of_most());
    ir::Attributes attributes{{"clip_norm", training.clip_norm.value_or(0)}, {"scale", scale_}};
    if (training.clip_epsilon != 0) attributes.set("epsilon", training.clip_epsilon);
    const ValueId factor = builder_.add(op, fmt::format("minimize/{}", op), std::move(operands),
                                        attributes, training.losses.front().span);
    if (!factor.valid() || !(training.clip_norm || training.norm)) return factor;
    context_.gradient_norm = graph_.producer_of(factor)->results[1];
    graph_.results.push_back(context_.gradient_norm);
    return factor;
  }

  /// Returns the device that stores most of the gradients, counted by elements. A node that reads
  /// all gradients needs the fewest copies there.
  plan::DeviceKind device_of_most() const {
    double here = 0, elsewhere = 0;
    for (const Trained& trained : trained_) {
      const ir::Value& gradient = graph_[trained.gradient];
      (gradient.device == graph_.device ? here : elsewhere) +=
          static_cast<double>(gradient.shape.elements());
    }
    return here >= elsewhere ? graph_.device : plan::other(graph_.device);
  }

  std::vector<ValueId> gradients() const {
    std::vector<ValueId> all;
    for (const Trained& trained : trained_) all.push_back(trained.gradient);
    return all;
  }

  /// Adds the factor that undoes a dynamic scale and clips the gradients. The factor also tells the
  /// updates to skip a step whose gradients are not finite.
  ValueId add_unscaling() {
    std::vector<ValueId> operands{context_.loss_scale};
    for (const ValueId gradient : gradients()) operands.push_back(gradient);
    context_.factor = add_factor("unscale_factor", std::move(operands));
    graph_.results.push_back(context_.factor);
    return context_.factor;
  }

  /// Adds the update of the loss scale, which grows or shrinks after all readers have read it.
  void add_scale_update() {
    const LossScale& rule = *context_.training->loss_scale;
    const Span span = context_.training->losses.front().span;
    builder_.place_on(graph_[context_.loss_scale].device);
    const ValueId finite_steps = builder_.add_variable(
        context_.training->job + "/finite_steps", graph_.compute_dtype, {}, {}, false, true, span);
    const ValueId moved = builder_.add("move_loss_scale", "minimize/move_loss_scale",
                                       {context_.factor, context_.loss_scale, finite_steps},
                                       {{"backoff_factor", rule.backoff_factor},
                                        {"growth_factor", rule.growth_factor},
                                        {"growth_interval", rule.growth_interval}},
                                       span);
    graph_.set_updated(context_.loss_scale, moved);
    graph_.set_updated(finite_steps, graph_.producer_of(moved)->results[1]);
  }

  void add_update(const Trained& trained, ValueId factor) {
    const Training& training = *context_.training;
    const ir::Value value = graph_[trained.variable];
    builder_.place_on(value.device);
    const ValueId slow = training.lookahead ? add_cycle_start(value, trained.variable) : ValueId();
    ValueId updated;
    if (training.adafactor)
      updated = add_adafactor(composed(trained, factor), *training.adafactor);
    else if (trained.by_muon)
      updated = add_muon(composed(trained, factor), *training.muon);
    else
      updated = add_plain(trained, factor);
    if (training.lookahead) updated = add_cycle_end(value, slow, updated);
    if (training.ema_decay) add_average(value, updated);
  }

  ComposedUpdate composed(const Trained& trained, ValueId factor) {
    return {builder_, trained.variable,   trained.gradient,    factor, context_.loss_scale.valid(),
            scale_,   trained.rate_scale, trained.weight_decay};
  }

  /// Returns the value of the variable at the start of the current Lookahead cycle.
  ValueId add_cycle_start(const ir::Value& variable, ValueId id) {
    const std::string name = variable.name + "/slow";
    const ValueId slow = builder_.add_slot(name, variable, variable.shape);
    const ValueId kept =
        builder_.add("lookahead_start", name + ":update", {id, slow},
                     {{"steps", context_.training->lookahead->steps}}, variable.span);
    graph_.set_updated(slow, kept);
    return kept;
  }

  ValueId add_cycle_end(const ir::Value& variable, ValueId slow, ValueId updated) {
    const plan::Lookahead& lookahead = *context_.training->lookahead;
    return builder_.add("lookahead_update", variable.name + ":update.lookahead", {slow, updated},
                        {{"steps", lookahead.steps}, {"alpha", lookahead.alpha}}, variable.span);
  }

  /// Adds an update that consists of a single op. Returns the variable's new value.
  ValueId add_plain(const Trained& trained, ValueId factor) {
    const Training& training = *context_.training;
    const ir::Value value = graph_[trained.variable];
    const ops::OpSpec& op = *trained.update;
    const plan::Initializer start = training.slot_start == 0
                                        ? plan::Initializer()
                                        : plan::initializers::Constant{training.slot_start};
    std::vector<ValueId> operands{trained.gradient, trained.variable};
    for (size_t i = 2; i < 1 + op.results.size(); ++i)
      operands.push_back(builder_.add_slot(fmt::format("{}/{}", value.name, op.operands[i].name),
                                           value, value.shape, start));
    const std::vector<ValueId> moved(operands.begin() + 1, operands.end());
    if (trained.indices.valid()) operands.push_back(trained.indices);
    if (factor.valid()) operands.push_back(factor);
    AttributeSpans spans;
    spans.op = value.span;
    const std::vector<ValueId> updated = builder_.add(
        op, value.name + ":update", std::move(operands), attributes_of(op, trained), spans);
    for (size_t i = 0; i < moved.size(); ++i) graph_.set_updated(moved[i], updated[i]);
    return updated.front();
  }

  /// Adds the moving average of a variable. `variable` is its value before the update, `updated`
  /// the value after it.
  void add_average(const ir::Value& variable, ValueId updated) {
    const std::string name = plan::average_of(variable.name);
    const ValueId average = builder_.add_slot(name, variable, variable.shape);
    graph_.set_updated(average,
                       builder_.add("ema_update", name + ":update", {updated, average},
                                    {{"decay", *context_.training->ema_decay}}, variable.span));
  }

  ir::Attributes attributes_of(const ops::OpSpec& op, const Trained& trained) const {
    ir::Attributes attributes = context_.training->attributes;
    attributes.set("scale", scale_);
    attributes.set("rate_scale", trained.rate_scale);
    const bool l2 = context_.training->decays_gradients;
    if (op.attribute("weight_decay")) attributes.set("weight_decay", l2 ? 0 : trained.weight_decay);
    if (l2 && trained.weight_decay != 0) attributes.set("l2_decay", trained.weight_decay);
    return attributes;
  }

  /// Moves each new node up, to right after the nodes that make its operands. An update writes its
  /// variables in place, so it also follows all other reads of them.
  void place_early() {
    const auto last_read = last_reads();
    std::vector<size_t> before(graph_.nodes.size() - old_);
    for (size_t i = 0; i < before.size(); ++i)
      for (const ValueId operand : graph_.nodes[old_ + i].operands) {
        const ir::NodeId producer = graph_[operand].producer;
        const size_t behind_it = !producer.valid()          ? last_read[operand.index()]
                                 : producer.index() >= old_ ? before[producer.index() - old_]
                                                            : producer.index() + 1;
        before[i] = std::max(before[i], behind_it);
      }
    graph_.move_last(before);
  }

  /// Returns, indexed by ValueId, the number of nodes up to and including the last reader.
  std::vector<size_t> last_reads() const {
    std::vector<size_t> last(graph_.values.size());
    for (size_t i = 0; i < old_; ++i)
      for (const ValueId read : reads_of(graph_.nodes[i])) last[read.index()] = i + 1;
    return last;
  }

  ir::Graph& graph_;
  Context& context_;
  Diags& diags_;
  ir::Builder builder_;
  const size_t old_;  // the number of nodes before this pass
  double scale_ = 1;  // the factor on the gradients of the summed losses
  std::vector<Trained> trained_;
};

}  // namespace

void add_updates(ir::Graph& graph, Context& context, Diags& diags) {
  if (context.training) Updates(graph, context, diags).run();
}

}  // namespace flow::passes
