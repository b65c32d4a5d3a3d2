// Expansion of draws of tokens, which have no gradient.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Names the draw by the entry's path.
ir::ValueId expand_sample(LayerContext& context) {
  ir::Attributes attributes = context.attributes;
  attributes.set("consumer", context.name);
  return context.add("sample", "", context.operands, std::move(attributes));
}

}  // namespace

std::vector<Rules> sample() { return {{"sample", nullptr, expand_sample}}; }

}  // namespace flow::grad
