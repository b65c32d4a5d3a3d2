// Cuts the batch into shards: decides which nodes each shard runs on its rows and which nodes run
// once on the results of all shards, and computes the shapes of one shard.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/ir/call_site.h"
#include "compiler/passes/passes.h"
#include "ops/core/known.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/shards.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using ops::Combine;
using plan::LayoutFault;
using plan::ShardLayout;

/// Returns true if the job file contains the entry of the node. Names that the compiler makes
/// contain a colon.
bool is_written(const ir::Node& node) { return node.name.find(':') == std::string::npos; }

std::string_view phrase_of(Combine combine) {
  constexpr std::string_view kPhrases[] = {"a sum over the batch", "a sum over the batch",
                                           "a mean over the batch", "a maximum over the batch",
                                           "a minimum over the batch"};
  return kPhrases[static_cast<size_t>(combine)];
}

bool is_extreme(Combine combine) { return combine == Combine::kMax || combine == Combine::kMin; }

class ShardCutter {
 public:
  ShardCutter(ir::Graph& graph, Diags& diags)
      : graph_(graph),
        diags_(diags),
        shapes_(graph, [this](ValueId id) { return is_broadcast(id); }),
        layouts_(graph.values.size()),
        has_error_(graph.values.size()) {
    for (const ir::Value& value : graph.values) whole_.push_back(value.shape);
  }

  void run() {
    for (const ValueId input : graph_.inputs)
      if (graph_[input].batch_axis >= 0) split(input);
    const size_t count = graph_.nodes.size();
    for (size_t i = 0; i < count; ++i) visit(i);
    if (diags_.has_errors()) return;
    graph_.cut = true;
    graph_.move_last(before_);
    std::vector<ir::Node> nodes = std::move(graph_.nodes);
    std::stable_partition(nodes.begin(), nodes.end(),
                          [](const ir::Node& node) { return !node.once; });
    graph_.set_nodes(std::move(nodes));
  }

 private:
  ShardLayout::Kind kind_of(ValueId value) const { return layouts_[value.index()].kind; }
  bool is_split(ValueId value) const { return kind_of(value) == ShardLayout::Kind::kSplit; }
  bool is_broadcast(ValueId value) const { return kind_of(value) == ShardLayout::Kind::kBroadcast; }
  bool is_own(ValueId value) const { return kind_of(value) == ShardLayout::Kind::kOwn; }
  bool is_whole(ValueId value) const { return kind_of(value) == ShardLayout::Kind::kWhole; }

  /// Gives each shard its rows of the value. Returns false if the shards cannot have equally many
  /// rows.
  bool split(ValueId id) {
    ir::Value& value = graph_[id];
    layouts_[id.index()] = {ShardLayout::Kind::kSplit};
    return shapes_.cut(value.shape, value.batch_axis);
  }

  void visit(size_t index) {
    ir::Node& node = graph_.nodes[index];
    for (ValueId& operand : node.operands)
      if (const auto rows = rows_.find(operand); rows != rows_.end()) operand = rows->second;
    if (std::ranges::any_of(node.operands, [&](ValueId id) { return has_error_[id.index()]; }))
      return spoil(node);
    if (node.op == ops::kShardRows) return read_rows(index);
    node.once = node.once || node.op->runs_once() ||
                std::ranges::any_of(node.operands, [&](ValueId id) { return is_whole(id); });
    if (!node.once && !lay_out(node)) return spoil(node);
    if (node.once)
      make_whole(node);
    else if (!cut_node(index))
      spoil(graph_.nodes[index]);
  }

  void spoil(const ir::Node& node) {
    for (const ValueId result : node.results) has_error_[result.index()] = true;
  }

  /// Replaces the result of a shard_rows node. Its readers read a value that is computed with only
  /// the rows of one shard.
  void read_rows(size_t index) {
    const ir::Node node = graph_.nodes[index];
    const auto axis = static_cast<int>(node.attributes.get<int64_t>("axis"));
    const ValueId rows = constant_of_shard(node.operands[0], axis, index);
    if (rows.valid()) {
      rows_[node.results[0]] = rows;
    } else {
      report_constant(node);
      spoil(node);
    }
  }

  /// Marks the results of a node that runs once as whole values. The node can read everything that
  /// the shards make, except rows, which no node joins. Moving statistics take the mean of the
  /// values that each shard has separately.
  void make_whole(ir::Node& node) {
    node.per_shard = false;
    for (const ValueId operand : node.operands) {
      if (!is_own(operand)) continue;
      if (!node.op->moves_statistics()) {
        report_own(node, operand);
        return spoil(node);
      }
      graph_[operand].combine = Combine::kMean;
      layouts_[operand.index()] = {ShardLayout::Kind::kPartial, Combine::kMean};
    }
    if (std::ranges::any_of(node.operands, [&](ValueId id) { return is_split(id); })) {
      report_mixed_rows(node);
      return spoil(node);
    }
    for (const ValueId result : node.results) {
      layouts_[result.index()] = {ShardLayout::Kind::kWhole};
      graph_[result].combine.reset();
    }
  }

  // Layouts.

  /// Determines how the results are laid out on the shards, or makes the node run once. Reports an
  /// error if neither is possible.
  bool lay_out(ir::Node& node) {
    if (node.per_shard) return lay_out_per_shard(node);
    std::vector<ShardLayout> operands;
    for (const ValueId operand : node.operands) operands.push_back(layouts_[operand.index()]);
    for (const ValueId id : node.results) {
      ir::Value& result = graph_[id];
      const auto layout = plan::layout_of_result(
          *node.op, operands,
          {result.dtype, result.shape, result.batch_axis, result.combine.value_or(Combine::kNone)});
      if (const auto* fault = std::get_if<LayoutFault>(&layout)) return resolve(node, *fault);
      layouts_[id.index()] = std::get<ShardLayout>(layout);
      const Combine combine = layouts_[id.index()].combine;
      result.combine = combine == Combine::kNone ? std::nullopt : std::optional(combine);
    }
    return true;
  }

  /// Uses the layouts that are already recorded in the node's results.
  bool lay_out_per_shard(const ir::Node& node) {
    for (const ValueId id : node.results) {
      const ir::Value& result = graph_[id];
      layouts_[id.index()] = plan::layout_per_shard(result.batch_axis, result.combine);
    }
    return true;
  }

  /// If the compiler added the node, for the gradient of a weight, makes it run once on whole
  /// values if that is possible. Otherwise reports the error.
  bool resolve(ir::Node& node, const LayoutFault& fault) {
    using Kind = LayoutFault::Kind;
    const bool parts_of_a_sum =
        fault.kind == Kind::kPartsDiffer || fault.kind == Kind::kPartialAndBroadcast;
    const bool reads_rows =
        std::ranges::any_of(node.operands, [&](ValueId id) { return is_split(id); });
    if (!is_written(node) && (parts_of_a_sum || (fault.kind == Kind::kReadsPart && !reads_rows))) {
      node.once = true;
      return true;
    }
    if (parts_of_a_sum)
      report_unequal_parts(node, fault);
    else if (fault.kind == Kind::kReadsOwn)
      report_own(node, node.operands[fault.operand]);
    else if (fault.kind == Kind::kReadsPart)
      report_read_part(node, fault.operand);
    else
      report_mixed_rows(node);
    return false;
  }

  static std::string entry_of(const ir::Node& node) {
    return node.name.substr(0, node.name.find(':'));
  }

  /// Returns the name of a value in messages, such as "the gradient of `w`".
  std::string text_of(ValueId id) const {
    const std::string& name = graph_[id].name;
    const size_t colon = name.find(':');
    const std::string shown = "`" + name.substr(0, colon) + "`";
    return name.substr(std::min(colon, name.size())).starts_with(":diff")
               ? "the gradient of " + shown
               : shown;
  }

  std::string text_of_part(ValueId id) const {
    const ShardLayout& layout = layouts_[id.index()];
    return fmt::format("{}, {}", text_of(id),
                       layout.kind == ShardLayout::Kind::kPartial
                           ? phrase_of(layout.combine)
                           : "which does not depend on the batch");
  }

  /// The hint for an entry that shards cannot compute as the whole batch would.
  static constexpr std::string_view kPerShardHint =
      "write `per_shard: true` on the entry to compute it from the rows of each shard";

  /// Reports a node that combines a value that each shard has separately with a value of the whole
  /// batch. Only nodes that are per shard can read the former.
  void report_own(const ir::Node& node, ValueId own) {
    if (!is_written(node)) return report_own_gradient(node, own);
    diags_
        .error(Diagnosis::kOwnOfShards, node.span,
               fmt::format("{}: `{}` reads {}, which differs between {} shards, and a value "
                           "of the whole batch; expected one kind",
                           entry_of(node), node.op->name, text_of(own), graph_.shards))
        .with_hint(std::string(kPerShardHint));
  }

  /// Reports a gradient that differs between shards, although its value is a part of a value of the
  /// whole batch.
  void report_own_gradient(const ir::Node& node, ValueId own) {
    const std::string& name = graph_[own].name;
    diags_
        .error(Diagnosis::kOwnOfShards, node.span,
               fmt::format("each of {} shards has its own value for {}; expected one for the whole "
                           "batch",
                           graph_.shards, text_of(own)))
        .with_hint(
            fmt::format("write `per_shard: true` on `{}`, too", name.substr(0, name.find(':'))));
  }

  void report_unequal_parts(const ir::Node& node, const LayoutFault& fault) {
    const auto part = std::ranges::find_if(node.operands, [&](ValueId id) {
      return kind_of(id) == ShardLayout::Kind::kPartial && id != node.operands[fault.operand];
    });
    const ValueId other = node.operands[fault.operand];
    diags_
        .error(Diagnosis::kUnequalParts, node.span,
               fmt::format("{}: `{}` reads {}, and {}; expected one kind in a job with {} shards",
                           entry_of(node), node.op->name, text_of_part(*part), text_of_part(other),
                           graph_.shards))
        .with_hint(graph_[node.results[0]].shape.rank() > 0
                       ? "use one shard"
                       : fmt::format("to minimize their sum, write `minimize: [{}, {}]`",
                                     graph_[*part].name, graph_[other].name))
        .with_hint(std::string(kPerShardHint));
  }

  void report_read_part(const ir::Node& node, size_t operand) {
    const ValueId part = node.operands[operand];
    const Combine combine = layouts_[part.index()].combine;
    if (is_extreme(combine) && !is_written(node)) return report_extreme(node, part);
    const bool beside_rows =
        std::ranges::any_of(node.operands, [&](ValueId id) { return is_split(id); });
    const std::string problem =
        beside_rows ? fmt::format(
                          "`{}` reads {}, next to rows of the batch; expected rows, variables or "
                          "constants",
                          node.op->name, text_of_part(part))
                    : fmt::format("`{}` is not linear in {}; expected a linear op", node.op->name,
                                  text_of_part(part));
    diags_
        .error(
            Diagnosis::kNonlinearInPart, node.span,
            fmt::format("{}: {} in a job with {} shards", entry_of(node), problem, graph_.shards))
        .with_hint(
            fmt::format("use one shard, or return {} and compute the rest from it", text_of(part)))
        .with_hint(is_written(node) ? std::string(kPerShardHint) : std::string());
  }

  void report_extreme(const ir::Node& node, ValueId part) {
    diags_
        .error(Diagnosis::kGradientOfExtreme, node.span,
               fmt::format("{} is {}, whose gradient no single shard of {} can compute",
                           text_of(part), phrase_of(layouts_[part.index()].combine), graph_.shards))
        .with_hint("use one shard, or minimize a mean or a sum")
        .with_hint(std::string(kPerShardHint));
  }

  void report_mixed_rows(const ir::Node& node) {
    const auto rows = std::ranges::find_if(node.operands, [&](ValueId id) { return is_split(id); });
    std::string operand;
    if (rows != node.operands.end())
      operand = fmt::format(" of {} {}", text_of(*rows), whole_[rows->index()].str());
    diags_
        .error(Diagnosis::kAlongBatch, node.span,
               fmt::format("{}: `{}` works along the batch axis{}; expected another axis in a job "
                           "with {} shards",
                           entry_of(node), node.op->name, operand, graph_.shards))
        .with_hint("use one shard, or compute along another axis")
        .with_hint(is_written(node) ? std::string(kPerShardHint) : std::string());
  }

  // Shapes of one shard.

  /// Cuts the shapes of the node and its results to those of one shard.
  bool cut_node(size_t index) {
    ir::Node node = graph_.nodes[index];
    bool cut_evenly = true;
    for (const ValueId result : node.results)
      if (is_split(result)) cut_evenly &= split(result);
    if (node.per_shard && cut_evenly) return true;  // it already has the shapes of a shard
    if (is_split(node.results[0])) shapes_.cut_attributes(node, graph_[node.results[0]].batch_axis);
    std::vector<ir::Value> expected;
    for (const ValueId result : node.results) expected.push_back(graph_[result]);
    std::vector<Shape> shapes = shapes_.shapes_of_operands(node);
    if (!cut_evenly || !shapes_.fit(node, expected, shapes)) {
      report_uneven(node);
      return false;
    }
    if (!read_cut(node, shapes, index)) {
      report_constant(node);
      return false;
    }
    graph_.nodes[index] = std::move(node);
    return true;
  }

  void report_uneven(const ir::Node& node) {
    diags_
        .error(Diagnosis::kAlongBatch, node.span,
               fmt::format("{}: `{}` cannot be computed in {} shards of {} each", entry_of(node),
                           node.op->name, graph_.shards,
                           counted(static_cast<uint64_t>(shapes_.batch() / graph_.shards), "row")))
        .with_hint("use fewer shards");
  }

  /// Replaces the operands by values of the given shapes. The node comes before nodes[before].
  bool read_cut(ir::Node& node, const std::vector<Shape>& shapes, size_t before) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto axis = cut_axis(graph_[node.operands[i]].shape, shapes[i]);
      if (!axis) continue;
      node.operands[i] = constant_of_shard(node.operands[i], *axis, before);
      if (!node.operands[i].valid()) return false;
    }
    return true;
  }

  void report_constant(const ir::Node& node) {
    const ir::Value& value = graph_[uncut_];
    diags_
        .error(Diagnosis::kConstantOfBatch, node.span,
               fmt::format("{}: `{}` {} has a slice for each row of the batch; expected rows of "
                           "an input in a job with {} shards",
                           entry_of(node), value.name, value.shape.str(), graph_.shards))
        .with_hint(value.role == plan::Role::kInput ? "remove `rows: false` from the input"
                                                    : "use one shard, or an input");
  }

  /// Returns a shared value cut along an axis, recomputed with fewer elements. Returns an invalid
  /// id if that needs a slice of `uncut_`.
  ValueId constant_of_shard(ValueId value, int axis, size_t before) {
    const auto known = constants_.find({value, axis});
    if (known != constants_.end()) return known->second;
    uncut_ = value;
    auto made = shapes_.remake(value, axis);
    if (!made || !read_cut(made->node, made->shapes, before)) return {};
    return constants_[{value, axis}] =
               add(std::move(made->node), std::move(made->value), axis, before);
  }

  ValueId add(ir::Node node, ir::Value value, int axis, size_t before) {
    const ValueId id(graph_.values.size());
    node.name = value.name = fmt::format("{}:shard{}", value.name, axis);
    node.results = {id};
    value.producer = ir::NodeId(graph_.nodes.size());
    graph_.values.push_back(std::move(value));
    graph_.nodes.push_back(std::move(node));
    before_.push_back(before);
    whole_.push_back(graph_[id].shape);
    layouts_.push_back({});
    has_error_.push_back(false);
    return id;
  }

  ir::Graph& graph_;
  Diags& diags_;
  const ShardShapes shapes_;
  // The following vectors are indexed by ValueId.
  std::vector<Shape> whole_;  // shapes before the cut
  std::vector<ShardLayout> layouts_;
  std::vector<bool> has_error_;
  std::map<std::pair<ValueId, int>, ValueId> constants_;  // values of one shard, by value and axis
  std::map<ValueId, ValueId> rows_;  // the values to read instead of the results of shard_rows
  ValueId uncut_;                    // the constant that no shard can slice
  std::vector<size_t> before_;       // for each added node, the node that it is placed before
};

}  // namespace

void cut_shards(ir::Graph& graph, Context& context, Diags& diags) {
  if (graph.shards <= 1) return;
  ShardCutter(graph, diags).run();
  // Drops the whole constants that only shards have read.
  if (!diags.has_errors()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
