// Expansion of the random numbers of job files into draws named after their entry. Draws have no
// gradients.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Names the draw by the entry's path, which stays the same if the node is cloned or moved.
ir::ValueId draw(LayerContext& context, std::string_view op, ir::ValueId operand,
                 ir::Attributes attributes) {
  attributes.set("consumer", context.name);
  std::vector<ir::ValueId> operands;
  if (operand.valid()) operands.push_back(operand);
  return context.add(op, "", std::move(operands), std::move(attributes));
}

template <const char* kOp>
ir::ValueId expand_draw(LayerContext& context) {
  const bool like = !context.operands.empty() && context.operands[0].valid();
  if (like && !context.attributes.get<std::vector<int64_t>>("shape").empty()) {
    context.site()
        .bad_attribute("shape", Diagnosis::kBadAttribute,
                       "found `like` and `shape`; expected one of them")
        .with_hint("remove `shape`");
    return {};
  }
  return draw(context, kOp, like ? context.operands[0] : ir::ValueId(), context.attributes);
}

constexpr char kRandomNormal[] = "random_normal", kRandomUniform[] = "random_uniform",
               kGumbel[] = "gumbel", kBernoulli[] = "bernoulli";

ir::ValueId expand_bernoulli(LayerContext& context) {
  return draw(context, kBernoulli, context.operands[0], context.attributes);
}

ir::ValueId expand_multinomial(LayerContext& context) {
  ir::ValueId weights = context.operands[0];
  if (context.attributes.get<bool>("logits") && context.operand(0).shape.rank() > 0)
    weights = context.add("softmax", "softmax", {weights}, {{"axis", int64_t{-1}}});
  return draw(context, "draw_indices", weights,
              {{"samples", context.attributes.get<int64_t>("samples")}});
}

}  // namespace

std::vector<Rules> random_draws() {
  return {{"random_normal", nullptr, expand_draw<kRandomNormal>},
          {"random_uniform", nullptr, expand_draw<kRandomUniform>},
          {"gumbel", nullptr, expand_draw<kGumbel>},
          {"bernoulli", nullptr, expand_bernoulli},
          {"multinomial", nullptr, expand_multinomial}};
}

}  // namespace flow::grad
