// Losses of classes: the gradients, and the layers, which add weights, ignored labels and label
// smoothing.
#include "ops/cross_entropy/cross_entropy.h"

#include "compiler/grad/shared_parts.h"
#include "runtime/base/array.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// A layer of class labels. Its operands are the labels, the scores of the classes and, optionally,
/// the weights.
class ClassLoss {
 public:
  explicit ClassLoss(LayerContext& context) : context_(context) {}

  /// Returns true if the operands fit and `ignore_index` is a possible label; otherwise reports
  /// them.
  bool fits() const {
    ops::Call call = context_.call();
    if (!ops::class_labels_fit(call)) return !context_.report(call);
    const DType dtype = labels().dtype;
    if (!ignored() || is_representable(static_cast<double>(*ignored()), dtype)) return true;
    context_.site().bad_attribute(
        "ignore_index", Diagnosis::kOutOfRange,
        fmt::format("`ignore_index` is {}, which no {} label can be", *ignored(), name_of(dtype)));
    return false;
  }

  bool is_weighted() const { return context_.operands.size() > 2; }
  const int64_t* ignored() const {
    const ir::Attribute* index = context_.attributes.find("ignore_index");
    return index ? &std::get<int64_t>(*index) : nullptr;
  }
  int64_t classes() const { return ops::classes_of(context_.call()); }
  ValueId scores() const { return context_.operands[1]; }
  ValueId weights() const { return context_.operands[2]; }

  /// Returns the labels with those to ignore replaced by 0, so that all of them are classes.
  ValueId class_labels() {
    if (!ignored()) return context_.operands[0];
    if (!class_labels_.valid()) {
      const DType dtype = labels().dtype;
      left_out_ =
          context_.add("equal", "ignored",
                       {context_.operands[0],
                        context_.number("ignore_index", static_cast<double>(*ignored()), dtype)});
      class_labels_ =
          context_.add("where", "labels",
                       {left_out_, context_.number("class_0", 0, dtype), context_.operands[0]});
    }
    return class_labels_;
  }

  /// Reduces the losses of rows according to `reduction`. `loss` includes the weights, and the rows
  /// to ignore.
  ValueId reduced(ValueId loss) {
    if (ignored()) loss = without_ignored("loss", loss);
    const std::string& reduction = context_.attributes.get<std::string>("reduction");
    if (reduction == "none") return loss;
    if (reduction == "sum" || is_weighted() || ignored()) {
      const ValueId sum = context_.add("reduce_sum", "sum", {loss}, all_axes());
      return reduction == "sum" ? sum : quotient(sum, total_weight());
    }
    return context_.add("reduce_mean", "mean", {loss}, all_axes());
  }

  /// Returns the weight of each row's label.
  ValueId row_weights() {
    if (!row_weights_.valid())
      row_weights_ =
          context_.add("gather", "weights", {weights(), class_labels()}, {{"axis", int64_t{0}}});
    return row_weights_;
  }

  LayerContext& context() const { return context_; }

 private:
  const ir::Value& labels() const { return context_.operand(0); }
  static ir::Attributes all_axes() {
    return {{"axis", std::vector<int64_t>{}}, {"keepdims", false}};
  }

  ValueId without_ignored(std::string_view part, ValueId rows) {
    class_labels();
    return context_.add("where", part, {left_out_, context_.number("zero", 0), rows});
  }

  /// Divides two sums over the whole batch. With shards, the division runs once, after the shards'
  /// sums are combined.
  ValueId quotient(ValueId sum, ValueId weight) {
    const ValueId mean = context_.add("divide", "mean", {sum, weight});
    ir::Graph& graph = context_.builder.graph();
    if (mean.valid() && graph.shards > 1 && graph[sum].combine && graph[weight].combine)
      graph.nodes.back().once = true;
    return mean;
  }

  /// Returns the sum of the weights of the labels that are not ignored.
  ValueId total_weight() {
    ValueId rows = is_weighted() ? row_weights() : context_.number("one", 1);
    if (ignored()) rows = without_ignored("counted", rows);
    return context_.add("reduce_sum", "total_weight", {rows}, all_axes());
  }

  LayerContext& context_;
  ValueId class_labels_, left_out_, row_weights_;
};

ValueId expand_nll(LayerContext& context) {
  ClassLoss loss(context);
  if (!loss.fits()) return {};
  // Selects the label's log-probability. A product with a one-hot vector would be NaN for a class
  // of probability 0, whose log-probability is -inf.
  const ValueId hit = context.add(
      "one_hot", "label", {loss.class_labels()},
      {{"depth", loss.classes()}, {"on_value", 1.0}, {"off_value", 0.0}, {"dtype", DType::kBool}});
  const ValueId zero = context.number("other", 0);
  const ValueId picked = context.add("where", "picked", {hit, loss.scores(), zero});
  const ValueId sum = context.add("reduce_sum", "log_prob", {picked},
                                  {{"axis", std::vector<int64_t>{-1}}, {"keepdims", false}});
  ValueId rows = context.add("negative", "rows", {sum});
  if (loss.is_weighted()) rows = context.add("multiply", "weighted", {rows, loss.row_weights()});
  return loss.reduced(rows);
}

/// Returns the losses for smoothed labels: the label's class keeps 1 - smoothing, and the rest is
/// divided evenly among all classes.
ValueId smoothed_losses(ClassLoss& loss, double smoothing) {
  const LayerContext& context = loss.context();
  const double share = smoothing / static_cast<double>(loss.classes());
  ValueId shares = context.add("one_hot", "shares", {loss.class_labels()},
                               {{"depth", loss.classes()},
                                {"on_value", 1 - smoothing + share},
                                {"off_value", share},
                                {"dtype", context.compute_dtype()}});
  if (loss.is_weighted()) shares = context.add("multiply", "weighted", {shares, loss.weights()});
  return context.add("softmax_cross_entropy_with_logits", "rows", {shares, loss.scores()});
}

ValueId expand_sparse_loss(LayerContext& context) {
  ClassLoss loss(context);
  const double smoothing = context.attributes.get<double>("label_smoothing");
  const bool plain = !loss.is_weighted() && !loss.ignored() && smoothing == 0 &&
                     context.attributes.get<std::string>("reduction") == "none";
  constexpr std::string_view kOp = "sparse_softmax_cross_entropy_with_logits";
  if (plain)
    return context.builder
        .add(*ops::find_spec(kOp), context.name, context.operands, {}, context.spans)
        .front();
  if (!loss.fits()) return {};
  ValueId rows = smoothing > 0 ? smoothed_losses(loss, smoothing)
                               : context.add(kOp, "rows", {loss.class_labels(), loss.scores()});
  if (!rows.valid()) return {};
  context.builder.alias(context.name + ".prob", context.graph().producer_of(rows)->results[1]);
  if (smoothing == 0 && loss.is_weighted())
    rows = context.add("multiply", "weighted", {rows, loss.row_weights()});
  return loss.reduced(rows);
}

/// Adds dlabels = -dy log(prob) and dlogits = dy (sum(labels) prob - labels).
std::vector<ir::ValueId> dense_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) {
    std::vector<int64_t> column = context.value_of(context.gradient()).shape.extents();
    column.push_back(1);
    const ir::ValueId dy = context.reshape(0, context.gradient(), column, "reshape");
    const ir::ValueId log =
        context.add("log_softmax", 0, {context.operand(1)}, {{"axis", int64_t{-1}}}, "log_softmax");
    const ir::ValueId product = context.add("multiply", 0, {log, dy}, {}, "multiply");
    gradients[0] = context.add("negative", 0, {product});
  }
  if (context.wanted[1])
    gradients[1] = context.add("softmax_cross_entropy_with_logits_grad", 1,
                               {context.operand(0), context.result(1), context.gradient()});
  return gradients;
}

std::vector<ir::ValueId> loss_gradient(GradientContext& context) {
  return {ir::ValueId(), context.add("sparse_softmax_cross_entropy_with_logits_grad", 1,
                                     {context.operand(0), context.result(1), context.gradient()})};
}

}  // namespace

std::vector<Rules> cross_entropy() {
  return {{"sparse_softmax_cross_entropy_with_logits", loss_gradient, expand_sparse_loss},
          {"nll", nullptr, expand_nll},
          {"softmax_cross_entropy_with_logits", dense_gradient}};
}

}  // namespace flow::grad
