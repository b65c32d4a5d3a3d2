// Gradients of elementwise losses and of connectionist temporal classification, and expansions of
// losses that are made of other ops.
#include "compiler/grad/shared_parts.h"
#include "ops/losses/losses.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// Adds `op`, the gradient of the loss, for operand i, with the attributes of the loss.
ValueId add_loss_grad(GradientContext& context, size_t i, std::string_view op,
                      std::string_view part) {
  return context.add(op, i, {context.gradient(), context.operand(0), context.operand(1)},
                     context.node.attributes, part);
}

/// Returns the gradients of a loss of a - b: that of b is the negative of that of a.
std::vector<ValueId> difference_gradient(GradientContext& context) {
  const std::string op = fmt::format("{}_grad", context.node.op->name);
  std::vector<ValueId> gradients(2);
  const size_t first = context.wanted[0] ? 0 : 1;
  const ValueId all = add_loss_grad(context, first, op, op);
  if (context.wanted[0]) gradients[0] = sum_to_operand(context, 0, all);
  if (context.wanted[1])
    gradients[1] = sum_to_operand(context, 1, context.add("negative", 1, {all}, {}, "negative"));
  return gradients;
}

std::vector<ValueId> cross_entropy_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(2);
  if (context.wanted[0]) {
    const ValueId product =
        context.add("multiply", 0, {context.gradient(), context.operand(1)}, {}, "multiply");
    gradients[0] =
        sum_to_operand(context, 0, context.add("negative", 0, {product}, {}, "negative"));
  }
  constexpr std::string_view kGrad = "sigmoid_cross_entropy_with_logits_grad";
  if (context.wanted[1])
    gradients[1] =
        sum_to_operand(context, 1, add_loss_grad(context, 1, kGrad, "cross_entropy_grad"));
  return gradients;
}

std::vector<ir::ValueId> ctc_gradient(GradientContext& context) {
  std::vector<ir::ValueId> operands = context.node.operands;
  operands.push_back(context.gradient());
  std::vector<ir::ValueId> gradients(context.node.operands.size());
  gradients[1] = context.add("ctc_grad", 1, std::move(operands), context.attributes({"blank"}));
  return gradients;
}

/// Returns the sum over the last axis.
ValueId sum_of_last(const LayerContext& context, std::string_view part, ValueId x) {
  return context.add("reduce_sum", part, {x},
                     {{"axis", std::vector<int64_t>{-1}}, {"keepdims", false}});
}

bool fits_elements(const LayerContext& context) {
  ops::Call call = context.call();
  return ops::equal_or_numbers(call) || !context.report(call);
}

ValueId expand_kl_div(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const ValueId log_probs = context.operands[0], target = context.operands[1];
  if (context.attributes.get<bool>("log_target"))
    return context.add("multiply", "",
                       {context.add("exp", "target", {target}),
                        context.add("subtract", "log_ratio", {target, log_probs})});
  // Targets of 0 are replaced by 1 in the logarithm, because 0 log(0) would be NaN.
  const ValueId none = context.add("equal", "is_0", {target, context.number("zero", 0)});
  const ValueId safe = context.add("where", "safe", {none, context.number("one", 1), target});
  const ValueId ratio =
      context.add("subtract", "log_ratio", {context.add("log", "log_target", {safe}), log_probs});
  return context.add(
      "where", "",
      {none, context.number("nothing", 0), context.add("multiply", "product", {target, ratio})});
}

ValueId expand_hinge(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const ValueId product =
      context.add("multiply", "product", {context.operands[0], context.operands[1]});
  const ValueId margin = context.number("margin", context.attributes.get<double>("margin"));
  return context.add("relu", "", {context.add("subtract", "below_margin", {margin, product})});
}

ValueId expand_huber(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const double delta = context.attributes.get<double>("delta");
  const std::vector<ValueId> operands{context.operands[0], context.operands[1]};
  if (delta == 1) return context.add("smooth_l1", "", operands, {{"beta", 1.0}});
  return context.add("multiply", "",
                     {context.add("smooth_l1", "smooth_l1", operands, {{"beta", delta}}),
                      context.number("delta", delta)});
}

/// Returns x y + (1 - x) (1 - y), which measures how far two values in [0, 1] agree.
ValueId agreement(const LayerContext& context, std::string_view part, ValueId x, ValueId y) {
  const std::string name(part);
  const ValueId product = context.add("multiply", name + ".product", {x, y});
  const ValueId twice = context.add("add", name + ".twice", {product, product});
  const ValueId sum = context.add("add", name + ".sum", {x, y});
  const ValueId rest = context.add("subtract", name + ".rest", {twice, sum});
  return context.add("add", part, {rest, context.number(name + ".one", 1)});
}

/// Returns missed^gamma with a finite derivative everywhere. The derivative of a power below 1 is
/// infinite at 0, so `missed` is kept positive for these powers.
ValueId focal_weight(const LayerContext& context, ValueId missed, double gamma) {
  if (gamma == 1) return missed;
  if (gamma == 2) return context.add("square", "weight", {missed});
  if (gamma < 1)
    missed = context.add("maximum", "positive", {missed, context.number("least", 1e-30)});
  return context.add("pow", "weight", {missed, context.number("gamma", gamma)});
}

ValueId expand_focal(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const ValueId labels = context.operands[0], logits = context.operands[1];
  const double alpha = context.attributes.get<double>("alpha"),
               gamma = context.attributes.get<double>("gamma");
  ValueId loss =
      context.add("sigmoid_cross_entropy_with_logits", "cross_entropy", {labels, logits});
  if (gamma > 0) {
    const ValueId found =
        agreement(context, "found", context.add("sigmoid", "p", {logits}), labels);
    const ValueId missed = context.add("subtract", "missed", {context.number("one", 1), found});
    loss = context.add("multiply", "weighted", {loss, focal_weight(context, missed, gamma)});
  }
  const ValueId share = agreement(context, "alpha", context.number("alpha.of_1", alpha), labels);
  return context.add("multiply", "", {loss, share});
}

ValueId expand_cosine_embedding(LayerContext& context) {
  ops::Call vectors({context.call().operand(0), context.call().operand(1)}, context.attributes,
                    context.call().job());
  if (!ops::are_vectors(vectors, 0)) {
    context.report(vectors);
    return {};
  }
  const Shape a = context.operand(0).shape, pairs = a.first(a.rank() - 1);
  const ir::Value labels = context.operand(2);
  if (labels.shape != pairs) {
    context.site().bad_operand(2, Diagnosis::kShapeMismatch,
                               fmt::format("the labels are {} for vectors {}; expected {}",
                                           labels.shape.str(), a.str(), pairs.str()));
    return {};
  }
  const auto length = [&](const std::string& part, ValueId x) {
    return context.add(
        "add", part,
        {sum_of_last(context, part + ".sum", context.add("square", part + ".square", {x})),
         context.number(part + ".epsilon", 1e-12)});
  };
  const ValueId product =
      sum_of_last(context, "product",
                  context.add("multiply", "products", {context.operands[0], context.operands[1]}));
  const ValueId lengths = context.add(
      "multiply", "lengths",
      {length("length_a", context.operands[0]), length("length_b", context.operands[1])});
  const ValueId cosine =
      context.add("divide", "cosine", {product, context.add("sqrt", "root", {lengths})});
  const ValueId similar = context.add("subtract", "similar", {context.number("one", 1), cosine});
  const ValueId margin = context.number("margin", context.attributes.get<double>("margin"));
  const ValueId different =
      context.add("relu", "different", {context.add("subtract", "above_margin", {cosine, margin})});
  const ValueId is_similar = context.add(
      "greater", "is_similar", {context.operands[2], context.number("zero", 0, labels.dtype)});
  return context.add("where", "", {is_similar, similar, different});
}

ValueId expand_triplet_margin(LayerContext& context) {
  ops::Call call = context.call();
  if (!ops::are_vectors(call, 0)) {
    context.report(call);
    return {};
  }
  const bool squares = context.attributes.get<int64_t>("p") == 2;
  const ValueId epsilon = context.number("epsilon", context.attributes.get<double>("epsilon"));
  const auto distance = [&](const std::string& part, ValueId x, ValueId y) {
    const ValueId difference = context.add(
        "add", part + ".moved", {context.add("subtract", part + ".difference", {x, y}), epsilon});
    const ValueId sum =
        sum_of_last(context, squares ? part + ".sum" : part,
                    context.add(squares ? "square" : "abs", part + ".size", {difference}));
    return squares ? context.add("sqrt", part, {sum}) : sum;
  };
  const ValueId anchor = context.operands[0], positive = context.operands[1],
                negative = context.operands[2];
  const ValueId near = distance("positive", anchor, positive);
  ValueId far = distance("negative", anchor, negative);
  if (context.attributes.get<bool>("swap"))
    far = context.add("minimum", "nearer", {far, distance("swapped", positive, negative)});
  const ValueId margin = context.number("margin", context.attributes.get<double>("margin"));
  return context.add(
      "relu", "",
      {context.add("add", "sum", {context.add("subtract", "closer", {near, far}), margin})});
}

}  // namespace

std::vector<Rules> losses() {
  return {{"mse", difference_gradient},
          {"l1", difference_gradient},
          {"smooth_l1", difference_gradient},
          {"sigmoid_cross_entropy_with_logits", cross_entropy_gradient},
          {"ctc", ctc_gradient},
          {"kl_div", nullptr, expand_kl_div},
          {"hinge", nullptr, expand_hinge},
          {"huber", nullptr, expand_huber},
          {"focal", nullptr, expand_focal},
          {"cosine_embedding", nullptr, expand_cosine_embedding},
          {"triplet_margin", nullptr, expand_triplet_margin}};
}

}  // namespace flow::grad
