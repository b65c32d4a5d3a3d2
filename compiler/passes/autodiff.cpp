// Adds the gradients, going backward from the sum of the elements of the loss. The gradient of that
// sum is ones, or the loss scale.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/core/known.h"
#include "runtime/base/error.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class Autodiff {
 public:
  Autodiff(ir::Graph& graph, Context& context, Diags& diags)
      : graph_(graph),
        context_(context),
        training_(*context.training),
        diags_(diags),
        builder_(graph, diags),
        forward_(graph.nodes.size()),
        paths_(graph, *context.training, diags),
        arrived_(graph.values.size()),
        gradients_(graph.values.size()) {}

  void run() {
    if (!paths_.find()) return;
    if (training_.scales_dynamically()) add_scale();
    const std::vector<Group> groups = groups_of_losses();
    if (groups.size() == 1 && !groups.front().divisor.valid()) {
      differentiate(groups.front().losses);
    } else {
      for (const Group& group : groups) differentiate(group);
      if (!diags_.has_errors()) join_parts();
    }
    for (const ValueId of : training_.gradients_of)
      if (graph_.gradient_of(of).valid()) graph_.watched.push_back(delivered(of));
  }

 private:
  /// Losses that are sums over all shards, each divided by a number that is available only when all
  /// shards are done. Their gradients are those of the sums, and are divided after the shards. If
  /// `divisor` is invalid, the losses are used unchanged.
  struct Group {
    ValueId divisor;
    std::vector<Loss> losses;
    double share = 1;  // the factor on the gradients of these losses and on the divisor
  };
  /// A part of the gradient of a value, from the losses of one group.
  struct Part {
    ValueId of, gradient, divisor;
  };

  std::vector<Group> groups_of_losses() const {
    std::vector<Group> groups;
    for (Loss loss : training_.losses) {
      const ir::Node* maker = graph_.producer_of(loss.value);
      ValueId divisor;
      if (maker && maker->once && maker->op == ops::kDivide &&
          !paths_.is_wanted(maker->operands[1])) {
        loss.value = maker->operands[0];
        divisor = maker->operands[1];
      }
      const auto known = std::ranges::find(groups, divisor, &Group::divisor);
      Group& group = known == groups.end() ? groups.emplace_back(Group{divisor, {}}) : *known;
      if (divisor.valid() && training_.loss_scale) group.share = share_of_sum(loss.value);
      group.losses.push_back(std::move(loss));
    }
    return groups;
  }

  /// Returns a power of two that brings a sum close to the mean. At a loss scale that suits the
  /// gradients of the mean, those of the sum would exceed the range of float16.
  double share_of_sum(ValueId sum) const {
    const ir::Node* maker = graph_.producer_of(sum);
    const ValueId terms = maker && maker->op == ops::kReduceSum ? maker->operands[0] : sum;
    return 1 / static_cast<double>(
                   std::bit_floor(static_cast<uint64_t>(graph_[terms].shape.elements())));
  }

  void differentiate(const std::vector<Loss>& losses, double share_of_all = 1) {
    for (size_t i = forward_; i-- > 0;)
      if (graph_.nodes[i].once && paths_.is_on_path(graph_.nodes[i]))
        return report_once(graph_.nodes[i]);
    for (const Loss& loss : losses) seed(loss, share_of_all);
    for (size_t i = forward_; i-- > 0 && !diags_.has_errors();)
      if (paths_.is_on_path(graph_.nodes[i])) differentiate(graph_.nodes[i]);
  }

  /// Differentiates one of several groups. Its gradients are recorded as parts.
  void differentiate(const Group& group) {
    arrived_.assign(arrived_.size(), 0);
    gradients_.assign(gradients_.size(), {});
    paths_.reach(group.losses);
    const size_t before = graph_.gradients.size();
    differentiate(group.losses, group.share);
    if (before == graph_.gradients.size()) return;
    const ValueId divisor = scaled_divisor(group);
    for (size_t i = before; i < graph_.gradients.size(); ++i)
      parts_.push_back({graph_.gradients[i].first, graph_.gradients[i].second, divisor});
    graph_.gradients.resize(before);
  }

  ValueId scaled_divisor(const Group& group) {
    if (group.share == 1) return group.divisor;
    const ir::Value divisor = graph_[group.divisor];
    builder_.place(divisor.device, false);
    return builder_.add("scale", divisor.name + "/scaled", {group.divisor},
                        {{"factor", group.share}}, divisor.span);
  }

  void report_once(const ir::Node& node) {
    diags_
        .error(Diagnosis::kNonlinearInPart, node.span,
               fmt::format("{}: `{}` computes the loss from a mean over the labels that count, "
                           "which {} shards make together; expected that mean in `minimize`",
                           node.name, node.op->name, graph_.shards))
        .with_hint(
            "list the means: `minimize: [a, b]`, or write `reduction: sum`, or use one shard");
  }

  /// Adds up the gradients of variables from all groups. Reports watched gradients of other values,
  /// because no shard can compute a gradient of rows here.
  void join_parts() {
    for (const ValueId of : training_.gradients_of)
      if (graph_[of].role != plan::Role::kVariable) return report_gradient_of_rows(of);
    for (const ValueId of : training_.variables) join_parts(of);
    for (const ValueId of : training_.gradients_of)
      if (!graph_.gradient_of(of).valid()) join_parts(of);
  }

  void join_parts(ValueId of) {
    const ir::Value value = graph_[of];
    builder_.place(value.device, false);
    ValueId gradient;
    for (const Part& part : parts_) {
      if (part.of != of) continue;
      const ValueId one = part.divisor.valid()
                              ? builder_.add("divide", value.name + ":diff.divided",
                                             {part.gradient, part.divisor}, {}, value.span)
                              : part.gradient;
      gradient = gradient.valid() ? builder_.add("add", value.name + ":diff.joined",
                                                 {gradient, one}, {}, value.span)
                                  : one;
    }
    if (gradient.valid()) graph_.gradients.emplace_back(of, gradient);
  }

  void report_gradient_of_rows(ValueId of) {
    diags_
        .error(Diagnosis::kOwnOfShards, graph_[of].span,
               fmt::format("the gradient of `{}` depends on the labels that count in all {} "
                           "shards; expected that of a variable",
                           graph_[of].name, graph_.shards))
        .with_hint("watch gradients of variables, or write `reduction: sum`, or use one shard");
  }

  void add_scale() {
    builder_.place_on(graph_[training_.losses.front().value].device);
    const plan::initializers::Constant initial{training_.loss_scale->initial};
    context_.loss_scale =
        builder_.add_variable(training_.job + "/loss_scale", graph_.compute_dtype, {}, initial,
                              false, true, training_.losses.front().span);
  }

  /// Adds the gradient of the loss with respect to itself: ones, or the loss scale. For losses that
  /// each shard computes separately, the job minimizes their mean. For several losses, it minimizes
  /// the sum of their means. Because the gradients are later divided by the element count of the
  /// first loss, the share of each loss compensates for its own count. `share_of_all` is a further
  /// factor.
  void seed(const Loss& of, double share_of_all) {
    const ir::Value loss = graph_[of.value];
    builder_.place_on(loss.device);
    const std::string name = name_of_part(of.value, arrived_[of.value.index()] + 1);
    const std::vector<int64_t> shape = loss.shape.extents();
    const double share = share_of_all * static_cast<double>(training_.loss_elements(graph_)) /
                         static_cast<double>(loss.shape.elements()) /
                         static_cast<double>(graph_.is_own(of.value) ? graph_.shards : 1);
    const ValueId part =
        context_.loss_scale.valid()
            ? builder_.add("broadcast_to", name, {scale_of(share, name, loss.span)},
                           {{"shape", shape}}, loss.span)
            : builder_.add("fill", name, {},
                           {{"value", training_.static_scale() * share},
                            {"shape", shape},
                            {"dtype", loss.dtype}},
                           loss.span);
    arrive(of.value, part, loss.span);
  }

  /// Returns the dynamic loss scale times `share`.
  ValueId scale_of(double share, const std::string& name, Span span) {
    if (share == 1) return context_.loss_scale;
    return builder_.add("scale", name + "/scale", {context_.loss_scale}, {{"factor", share}}, span);
  }

  /// Returns the gradient as hooks read it, with a dynamic scale undone.
  ValueId delivered(ValueId of) {
    const ValueId gradient = graph_.gradient_of(of);
    if (!context_.loss_scale.valid()) return gradient;
    if (const ValueId known = delivered_gradient(graph_, context_, of); known != gradient)
      return known;
    builder_.place(graph_[gradient].device, graph_.is_own(gradient));
    const ValueId unscaled =
        builder_.add("divide", graph_[gradient].name + "/unscaled", {gradient, context_.loss_scale},
                     {}, graph_[gradient].span);
    context_.unscaled.emplace_back(of, unscaled);
    return unscaled;
  }

  void differentiate(const ir::Node& node) {
    builder_.place_on(node.device);
    GradientContext context{builder_, node, {}, {}, {}};
    context.wants_rows = paths_.is_wanted(node.operands[0]) && paths_.sparse_at(node.operands[0]);
    for (const ValueId result : context.node.results)
      context.result_gradients.push_back(gradient_for(context.node, result));
    builder_.place(context.node.device, context.node.per_shard);
    const size_t known = graph_.values.size();
    for (size_t i = 0; i < context.node.operands.size(); ++i) {
      const ValueId operand = context.operand(i);
      context.wanted.push_back(paths_.is_wanted(operand));
      // A product of x and x adds two parts to the gradient of x in one step.
      const auto earlier = std::ranges::count(
          context.node.operands.begin(),
          context.node.operands.begin() + static_cast<std::ptrdiff_t>(i), operand);
      context.names.push_back(
          name_of_part(operand, arrived_[operand.index()] + static_cast<int>(earlier) + 1));
    }
    const std::vector<ValueId> made = grad::rules_of(*context.node.op).gradient(context);
    for (size_t i = 0; i < context.node.operands.size() && !diags_.has_errors(); ++i) {
      if (!context.wanted[i]) continue;
      FLOW_CHECK(made[i].valid(), "{}: no gradient of operand {}", context.node.name, i);
      if (const Span* at = paths_.sparse_at(context.operand(i))) {
        if (i == 0 && context.indices.valid())
          arrive_rows(context.operand(0), {context.indices, made[0]});
        else
          report_dense(context.operand(i), context.node, *at);
        continue;
      }
      arrive(context.operand(i), laid_out(context, made, i, known), context.node.span);
    }
  }

  /// Returns the gradient of a result as the gradient rule reads it. If the result consists of
  /// rows, each shard reads the gradient of its rows.
  ValueId gradient_for(const ir::Node& node, ValueId result) {
    const ValueId gradient = gradients_[result.index()];
    const int axis = graph_[result].batch_axis;
    if (!node.per_shard || !gradient.valid() || axis < 0 ||
        graph_[gradient].batch_axis != ir::kNoBatch)
      return gradient;
    builder_.compute_per_shard(ir::PerShard::kNever);
    return builder_.add("shard_rows", graph_[gradient].name + "/rows", {gradient},
                        {{"axis", int64_t{axis}}}, node.span);
  }

  /// Returns the gradient of operand i in the layout that the nodes before this one read. `known`
  /// is the number of values before the rule ran.
  ValueId laid_out(const GradientContext& context, const std::vector<ValueId>& made, size_t i,
                   size_t known) {
    const ValueId of = context.operand(i);
    const int axis = graph_[of].batch_axis;
    if (!context.node.per_shard || lies_as_needed(of, made[i])) return made[i];
    const auto before = made.begin() + static_cast<std::ptrdiff_t>(i);
    const bool is_new =
        made[i].index() >= known && std::find(made.begin(), before, made[i]) == before;
    const bool is_constant = graph_[made[i]].batch_axis == ir::kNoBatch;
    const ValueId gradient =
        is_new && !is_constant ? made[i] : copy_per_shard(made[i], context.names[i], context.node);
    ir::Value& value = graph_[gradient];
    value.shape = graph_.shape_of_shard(gradient);
    value.batch_axis = axis >= 0 ? axis : ir::kBatchReduced;
    if (axis >= 0) value.shape[axis] *= graph_.shards;
    if (axis == ir::kNoBatch) value.combine = plan::Combine::kSum;
    return gradient;
  }

  /// Returns true if the gradient has the layout that `of` needs. The gradient of rows consists of
  /// the same rows. The gradient of a value that each shard computes separately may have any
  /// layout. The gradient of a value that all shards share is a sum, of which each shard makes a
  /// part.
  bool lies_as_needed(ValueId of, ValueId gradient) const {
    const int axis = graph_[of].batch_axis;
    if (axis >= 0) return graph_[gradient].batch_axis == axis;
    if (graph_.is_own(of)) return true;
    return axis == ir::kNoBatch ? graph_[gradient].combine.has_value() : graph_.is_own(gradient);
  }

  /// Returns the same numbers as a separate value of each shard.
  ValueId copy_per_shard(ValueId value, const std::string& name, const ir::Node& node) {
    const ValueId copy = builder_.add("scale", name, {value}, {{"factor", 1.0}}, node.span);
    graph_.nodes.back().per_shard = true;
    return copy;
  }

  std::string name_of_part(ValueId of, int number) const {
    const std::string& name = graph_[of].name;
    return paths_.uses(of) <= 1 ? name + ":diff" : fmt::format("{}:diff.{}", name, number);
  }

  /// Adds a part to the gradient of `of`, on the device of `of`, as soon as the part exists, so
  /// that parts do not accumulate in memory.
  void arrive(ValueId of, ValueId part, Span span) {
    const int number = ++arrived_[of.index()];
    const int uses = paths_.uses(of);
    ValueId& gradient = gradients_[of.index()];
    if (number == 1) {
      gradient = part;
    } else {
      const std::string name = graph_[of].name + ":diff";
      builder_.place(graph_[of].device, graph_.is_own(of));
      gradient = builder_.add("add", number == uses ? name : fmt::format("{}.sum{}", name, number),
                              {gradient, part}, {}, span);
    }
    if (number == uses) graph_.gradients.emplace_back(of, gradient);
  }

  void report_dense(ValueId variable, const ir::Node& node, Span sparse) {
    diags_
        .error(Diagnosis::kSparseGradient, node.span,
               fmt::format("`{}` makes a dense gradient of `{}`, which expects a sparse one",
                           node.op->name, graph_[variable].name))
        .label(sparse, "because of this")
        .with_hint("remove `sparse: true`");
  }

  /// Rows of a table, and the indices that picked them.
  struct Picked {
    ValueId indices, rows;
  };

  /// Keeps a part of a sparse gradient. The last part completes the gradient.
  void arrive_rows(ValueId of, Picked part) {
    std::vector<Picked>& parts = picked_[of];
    parts.push_back(part);
    if (++arrived_[of.index()] < paths_.uses(of)) return;
    const ir::Value table = graph_[of];
    builder_.place(table.device, false);
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i] = flat(table, parts[i], parts.size() == 1 ? "" : fmt::format(".{}", i + 1));
    const Picked all = parts.size() == 1 ? parts[0] : joined(table, parts);
    const ir::Attributes extent = {{"extent", table.shape[0]}};
    const ValueId rows = builder_.add("sparse_gather_grad", table.name + ":rows",
                                      {all.indices, all.rows}, extent, table.span);
    if (!rows.valid()) return;
    context_.sparse.push_back({of, rows, graph_.producer_of(rows)->results[1]});
    // Hooks read a dense gradient.
    if (std::ranges::find(training_.gradients_of, of) != training_.gradients_of.end())
      graph_.gradients.emplace_back(
          of, builder_.add("gather_grad", table.name + ":diff", {all.indices, all.rows},
                           {{"axis", int64_t{0}}, {"extent", table.shape[0]}}, table.span));
  }

  /// Returns the indices as an int64 vector, and the rows with one row for each index.
  Picked flat(const ir::Value& table, const Picked& part, const std::string& number) {
    const auto add = [&](std::string_view op, std::string_view what, ValueId operand,
                         ir::Attributes attributes) {
      return builder_.add(op, fmt::format("{}:{}{}", table.name, what, number), {operand},
                          std::move(attributes), table.span);
    };
    const ir::Value indices = graph_[part.indices];
    std::vector<int64_t> shape = table.shape.extents();
    shape[0] = indices.shape.elements();
    ValueId numbers = part.indices;
    if (indices.shape.rank() != 1)
      numbers = add("reshape", "indices", numbers, {{"shape", std::vector<int64_t>{shape[0]}}});
    if (indices.dtype != DType::kInt64)
      numbers = add("cast", "numbers", numbers, {{"dtype", DType::kInt64}});
    ValueId rows = part.rows;
    if (graph_[rows].shape.extents() != shape)
      rows = add("reshape", "picked", rows, {{"shape", shape}});
    return {numbers, rows};
  }

  /// Concatenates the parts.
  Picked joined(const ir::Value& table, const std::vector<Picked>& parts) {
    std::vector<ValueId> indices, rows;
    for (const Picked& part : parts) {
      indices.push_back(part.indices);
      rows.push_back(part.rows);
    }
    const ir::Attributes first = {{"axis", int64_t{0}}};
    return {builder_.add("concat", table.name + ":indices", std::move(indices), first, table.span),
            builder_.add("concat", table.name + ":picked", std::move(rows), first, table.span)};
  }

  ir::Graph& graph_;
  Context& context_;
  const Training& training_;
  Diags& diags_;
  ir::Builder builder_;
  const size_t forward_;  // nodes before this one belong to the forward graph
  GradientPaths paths_;
  // These vectors are indexed by ValueId of the forward graph.
  std::vector<int> arrived_;
  std::vector<ValueId> gradients_;
  std::vector<Part> parts_;
  std::map<ValueId, std::vector<Picked>> picked_;  // for variables with sparse gradients
};

}  // namespace

void autodiff(ir::Graph& graph, Context& context, Diags& diags) {
  if (context.training) Autodiff(graph, context, diags).run();
}

}  // namespace flow::passes
