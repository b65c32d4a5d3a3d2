// Expansions that combine the labels and predictions of metrics into pairs along a last axis of
// size 2.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;

ValueId in_dtype(const LayerContext& context, std::string_view part, ValueId x, DType dtype) {
  if (context.graph()[x].dtype == dtype) return x;
  return context.add("cast", part, {x}, {{"dtype", dtype}});
}

/// Reshapes [...] to [..., 1].
ValueId with_last_axis(const LayerContext& context, std::string_view part, ValueId x) {
  const Shape shape = context.graph()[x].shape;
  return context.reshape(part, x, ops::replaced_axes(shape, shape.rank(), 0, {1}).extents());
}

/// Returns pairs of a label and an element of `second`, whose last axis has the size 1.
ValueId paired(const LayerContext& context, ValueId labels, ValueId second) {
  const ValueId first = in_dtype(context, "labels", labels, context.graph()[second].dtype);
  return context.add("concat", "", {with_last_axis(context, "expand_labels", first), second},
                     {{"axis", int64_t{-1}}});
}

/// Returns a hint on how to make predictions match labels, or an empty string.
std::string hint_for_classes(const Shape& labels, const Shape& predictions) {
  if (labels == predictions) return "convert one-hot labels with `{op: argmax}` first";
  for (int axis = 0; axis < predictions.rank(); ++axis)
    if (ops::replaced_axes(predictions, axis, 1, {}) == labels)
      return fmt::format("write `axis: {}`", axis);
  if (labels.rank() == predictions.rank() && labels.rank() > 0 && labels[labels.rank() - 1] == 1)
    return "remove the last axis of the labels with `{op: squeeze, axis: -1}`";
  return {};
}

/// Returns the axis of the classes if predictions have one axis more than labels. Reports an axis
/// that is out of range and shapes that do not match; returns nothing in these cases.
std::optional<int64_t> find_class_axis(const LayerContext& context) {
  const Shape labels = context.operand(0).shape, predictions = context.operand(1).shape;
  const int64_t given = context.attributes.get<int64_t>("axis");
  const auto axis = ops::axis_in(given, predictions.rank());
  if (!axis) {
    context.site().bad_attribute(
        "axis", Diagnosis::kBadAttribute,
        fmt::format("axis {} is out of range for predictions {}", given, predictions.str()));
    return {};
  }
  if (ops::replaced_axes(predictions, *axis, 1, {}) == labels) return axis;
  context.site()
      .bad_operand(0, Diagnosis::kShapeMismatch,
                   fmt::format("the labels are {} for predictions {} with classes along axis {}",
                               labels.str(), predictions.str(), given))
      .with_hint(hint_for_classes(labels, predictions));
  return {};
}

/// Returns the classes with the largest scores. Reuses the argmax of another metric if there is
/// one.
ValueId likeliest(const LayerContext& context, ValueId scores, int64_t axis) {
  const ops::OpSpec* argmax = ops::find_spec("argmax");
  for (const ir::Node& node : context.graph().nodes)
    if (node.op == argmax && node.operands[0] == scores && !node.per_shard &&
        node.attributes.get<int64_t>("axis") == axis)
      return node.results[0];
  return context.add("argmax", "classes", {scores}, {{"axis", axis}});
}

/// Returns the predicted class of each label as int64, or an invalid value after an error.
ValueId predicted_classes(const LayerContext& context) {
  const ir::Value predictions = context.operand(1);
  const ValueId x = context.operands[1];
  const bool each = predictions.shape == context.operand(0).shape;
  if (each && !is_float(predictions.dtype)) return in_dtype(context, "classes", x, DType::kInt64);
  if (each) {
    const ValueId threshold =
        context.number("threshold", context.attributes.get<double>("threshold"), predictions.dtype);
    return in_dtype(context, "classes", context.add("greater", "above", {x, threshold}),
                    DType::kInt64);
  }
  const auto axis = find_class_axis(context);
  return axis ? likeliest(context, x, *axis) : ValueId();
}

ValueId expand_class_pairs(LayerContext& context) {
  const ValueId classes = predicted_classes(context);
  if (!classes.valid()) return {};
  return paired(context, context.operands[0], with_last_axis(context, "expand_classes", classes));
}

/// Expands top_k_accuracy. The top k classes are distinct, so that at most one of them is the label
/// and the sum of hits is 0 or 1.
ValueId expand_top_k_pairs(LayerContext& context) {
  const auto axis = find_class_axis(context);
  if (!axis) return {};
  const int64_t k = context.attributes.get<int64_t>("k");
  const int64_t classes = context.operand(1).shape[static_cast<int>(*axis)];
  if (k > classes) {
    context.site().bad_attribute("k", Diagnosis::kBadAttribute,
                                 fmt::format("k is {} for {} classes", k, classes));
    return {};
  }
  const ValueId values =
      context.add("top_k", "top", {context.operands[1]}, {{"k", k}, {"axis", *axis}});
  const ValueId places = context.result_beside(values, 1);
  const ValueId labels = in_dtype(context, "labels", context.operands[0], DType::kInt64);
  const Shape wanted_shape =
      ops::replaced_axes(context.graph()[labels].shape, static_cast<int>(*axis), 0, {1});
  const ValueId wanted = context.reshape("wanted", labels, wanted_shape.extents());
  const ValueId found =
      in_dtype(context, "found", context.add("equal", "equal", {places, wanted}), DType::kInt64);
  const ValueId hit = context.add("reduce_sum", "hit", {found}, {{"axis", Integers{*axis}}});
  return paired(context, labels, with_last_axis(context, "expand_hit", hit));
}

/// Returns scores as [..., 1]. For scores of classes 0 and 1, this is their difference, which grows
/// with the probability of class 1.
ValueId scores_of_one(const LayerContext& context) {
  const Shape labels = context.operand(0).shape, scores = context.operand(1).shape;
  const ValueId x = context.operands[1];
  if (scores == labels) return with_last_axis(context, "expand_scores", x);
  const int last = scores.rank() - 1;
  const bool rows = last >= 0 && scores.first(last) == labels;
  if (rows && scores[last] == 1) return x;
  if (rows && scores[last] == 2) {
    const ValueId zero = context.add("slice", "zero", {x}, {{"index", std::string("[..., :1]")}});
    const ValueId one = context.add("slice", "one", {x}, {{"index", std::string("[..., 1:]")}});
    return context.add("subtract", "scores", {one, zero});
  }
  context.site()
      .bad_operand(
          1, Diagnosis::kShapeMismatch,
          fmt::format("the scores are {} for labels {}; expected a score for each label, or "
                      "two along a last axis",
                      scores.str(), labels.str()))
      .with_hint("for the area of one class against all others, select its scores with `slice`");
  return {};
}

ValueId expand_score_pairs(LayerContext& context) {
  const ValueId scores = scores_of_one(context);
  return scores.valid() ? paired(context, context.operands[0], scores) : scores;
}

ValueId expand_losses(LayerContext& context) {
  return context.reshape("", context.operands[0], context.operand(0).shape.extents());
}

}  // namespace

std::vector<Rules> metric_pairs() {
  return {{"class_pairs", nullptr, expand_class_pairs},
          {"top_k_accuracy", nullptr, expand_top_k_pairs},
          {"auc", nullptr, expand_score_pairs},
          {"perplexity", nullptr, expand_losses}};
}

}  // namespace flow::grad
