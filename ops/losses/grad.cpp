// Gradients of losses of one element each, and of connectionist temporal classification; and losses
// that are made of other ops.
#include <fmt/format.h>

#include "compiler/grad/gradients.h"
#include "compiler/ir/rules.h"
#include "ops/losses/losses.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// The gradient op named after the loss, with its attributes, for operand i.
ValueId add_loss_grad(GradientContext& context, size_t i, std::string_view op,
                      std::string_view part) {
  return context.add(op, i, {context.gradient(), context.operand(0), context.operand(1)},
                     context.node.attributes, part);
}

/// A function of a - b: what one operand gets, the other loses.
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
  gradients[1] = context.add("ctc_grad", 1, std::move(operands),
                             {{"blank", *context.node.attributes.find("blank")}});
  return gradients;
}

/// The ops of a loss, in the job's float dtype. Names of parts are those below the entry's.
class Composer {
 public:
  explicit Composer(const LayerContext& context) : context_(context) {}

  ValueId operator()(std::string_view op, std::string_view part, std::vector<ValueId> operands,
                     ir::Attributes attributes = {}) const {
    return context_.add(op, part, std::move(operands), std::move(attributes));
  }
  ValueId number(std::string_view part, double value) const {
    return fill(part, value, context_.compute_dtype());
  }
  ValueId fill(std::string_view part, double value, DType dtype) const {
    return context_.add("fill", part, {},
                        {{"value", value}, {"shape", std::vector<int64_t>{}}, {"dtype", dtype}});
  }
  /// Over the last axis.
  ValueId sum(std::string_view part, ValueId x) const {
    return context_.add("reduce_sum", part, {x},
                        {{"axis", std::vector<int64_t>{-1}}, {"keepdims", false}});
  }
  double attribute(std::string_view name) const { return context_.attributes.get<double>(name); }
  bool flag(std::string_view name) const { return context_.attributes.get<bool>(name); }
  ValueId operand(size_t i) const { return context_.operands[i]; }

 private:
  const LayerContext& context_;
};

bool fits_elements(const LayerContext& context) {
  ops::Call call = context.call();
  return ops::equal_or_numbers(call) || !context.report(call);
}

ValueId expand_kl_div(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const Composer make(context);
  const ValueId log_probs = make.operand(0), target = make.operand(1);
  if (make.flag("log_target"))
    return make(
        "multiply", "",
        {make("exp", "target", {target}), make("subtract", "log_ratio", {target, log_probs})});
  // The logarithm of 0 would be multiplied by 0.
  const ValueId none = make("equal", "is_0", {target, make.number("zero", 0)});
  const ValueId safe = make("where", "safe", {none, make.number("one", 1), target});
  const ValueId ratio =
      make("subtract", "log_ratio", {make("log", "log_target", {safe}), log_probs});
  return make("where", "",
              {none, make.number("nothing", 0), make("multiply", "product", {target, ratio})});
}

ValueId expand_hinge(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const Composer make(context);
  const ValueId product = make("multiply", "product", {make.operand(0), make.operand(1)});
  const ValueId margin = make.number("margin", make.attribute("margin"));
  return make("relu", "", {make("subtract", "below_margin", {margin, product})});
}

ValueId expand_huber(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const Composer make(context);
  const double delta = make.attribute("delta");
  const std::vector<ValueId> operands{make.operand(0), make.operand(1)};
  if (delta == 1) return make("smooth_l1", "", operands, {{"beta", 1.0}});
  return make(
      "multiply", "",
      {make("smooth_l1", "smooth_l1", operands, {{"beta", delta}}), make.number("delta", delta)});
}

/// x y + (1 - x) (1 - y) for numbers, likewise for shares: how far both agree.
ValueId agreement(const Composer& make, std::string_view part, ValueId x, ValueId y) {
  const std::string name(part);
  const ValueId product = make("multiply", name + ".product", {x, y});
  const ValueId twice = make("add", name + ".twice", {product, product});
  const ValueId sum = make("add", name + ".sum", {x, y});
  const ValueId rest = make("subtract", name + ".rest", {twice, sum});
  return make("add", part, {rest, make.number(name + ".one", 1)});
}

/// missed^gamma, with a finite derivative everywhere: that of a power below 1 is infinite at 0.
ValueId focal_weight(const Composer& make, ValueId missed, double gamma) {
  if (gamma == 1) return missed;
  if (gamma == 2) return make("square", "weight", {missed});
  if (gamma < 1) missed = make("maximum", "positive", {missed, make.number("least", 1e-30)});
  return make("pow", "weight", {missed, make.number("gamma", gamma)});
}

ValueId expand_focal(LayerContext& context) {
  if (!fits_elements(context)) return {};
  const Composer make(context);
  const ValueId labels = make.operand(0), logits = make.operand(1);
  const double alpha = make.attribute("alpha"), gamma = make.attribute("gamma");
  ValueId loss = make("sigmoid_cross_entropy_with_logits", "cross_entropy", {labels, logits});
  if (gamma > 0) {
    const ValueId found = agreement(make, "found", make("sigmoid", "p", {logits}), labels);
    const ValueId missed = make("subtract", "missed", {make.number("one", 1), found});
    loss = make("multiply", "weighted", {loss, focal_weight(make, missed, gamma)});
  }
  const ValueId share = agreement(make, "alpha", make.number("alpha.of_1", alpha), labels);
  return make("multiply", "", {loss, share});
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
  const Composer make(context);
  const auto length = [&](const std::string& part, ValueId x) {
    return make("add", part,
                {make.sum(part + ".sum", make("square", part + ".square", {x})),
                 make.number(part + ".epsilon", 1e-12)});
  };
  const ValueId product =
      make.sum("product", make("multiply", "products", {make.operand(0), make.operand(1)}));
  const ValueId lengths =
      make("multiply", "lengths",
           {length("length_a", make.operand(0)), length("length_b", make.operand(1))});
  const ValueId cosine = make("divide", "cosine", {product, make("sqrt", "root", {lengths})});
  const ValueId similar = make("subtract", "similar", {make.number("one", 1), cosine});
  const ValueId margin = make.number("margin", make.attribute("margin"));
  const ValueId different =
      make("relu", "different", {make("subtract", "above_margin", {cosine, margin})});
  const ValueId is_similar =
      make("greater", "is_similar", {make.operand(2), make.fill("zero", 0, labels.dtype)});
  return make("where", "", {is_similar, similar, different});
}

ValueId expand_triplet_margin(LayerContext& context) {
  ops::Call call = context.call();
  if (!ops::are_vectors(call, 0)) {
    context.report(call);
    return {};
  }
  const Composer make(context);
  const bool squares = context.attributes.get<int64_t>("p") == 2;
  const ValueId epsilon = make.number("epsilon", make.attribute("epsilon"));
  const auto distance = [&](const std::string& part, ValueId x, ValueId y) {
    const ValueId difference =
        make("add", part + ".moved", {make("subtract", part + ".difference", {x, y}), epsilon});
    const ValueId sum = make.sum(squares ? part + ".sum" : part,
                                 make(squares ? "square" : "abs", part + ".size", {difference}));
    return squares ? make("sqrt", part, {sum}) : sum;
  };
  const ValueId anchor = make.operand(0), positive = make.operand(1), negative = make.operand(2);
  const ValueId near = distance("positive", anchor, positive);
  ValueId far = distance("negative", anchor, negative);
  if (make.flag("swap"))
    far = make("minimum", "nearer", {far, distance("swapped", positive, negative)});
  const ValueId margin = make.number("margin", make.attribute("margin"));
  return make("relu", "", {make("add", "sum", {make("subtract", "closer", {near, far}), margin})});
}

}  // namespace

std::span<const Rules> losses() {
  static constexpr Rules kRules[] = {
      {"mse", difference_gradient},
      {"l1", difference_gradient},
      {"smooth_l1", difference_gradient},
      {"sigmoid_cross_entropy_with_logits", cross_entropy_gradient},
      {"ctc", ctc_gradient},
      {"kl_div", nullptr, expand_kl_div},
      {"hinge", nullptr, expand_hinge},
      {"huber", nullptr, expand_huber},
      {"focal", nullptr, expand_focal},
      {"cosine_embedding", nullptr, expand_cosine_embedding},
      {"triplet_margin", nullptr, expand_triplet_margin},
  };
  return kRules;
}

}  // namespace flow::grad
