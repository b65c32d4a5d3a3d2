// The gradients of gather and scatter_add, and embedding.
#include "compiler/grad/initializers.h"
#include "compiler/grad/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> gather_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  const auto axis = context.node.attributes.get<int64_t>("axis");
  const int64_t extent = context.value_of(context.operand(0)).shape[static_cast<int>(axis)];
  gradients[0] = context.add("gather_grad", 0, {context.operand(1), context.gradient()},
                             {{"axis", axis}, {"extent", extent}});
  return gradients;
}

std::vector<ir::ValueId> scatter_add_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(3);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[2])
    gradients[2] = context.add("gather", 2, {context.gradient(), context.operand(1)},
                               {{"axis", *context.node.attributes.find("axis")}});
  return gradients;
}

ir::ValueId expand_embedding(LayerContext& context) {
  const Shape shape{context.attributes.get<int64_t>("vocab_size"),
                    context.attributes.get<int64_t>("units")};
  const ir::ValueId weight = context.add_variable("weight", "embeddings_initializer",
                                                  context.compute_dtype(), shape, fans_of(shape));
  return context.add("gather", "gather", {weight, context.operands[0]}, {});
}

}  // namespace

std::span<const Rules> gather() {
  static constexpr Rules kRules[] = {
      {"embedding", nullptr, expand_embedding},
      {"gather", gather_gradient},
      {"scatter_add", scatter_add_gradient},
  };
  return kRules;
}

}  // namespace flow::grad
