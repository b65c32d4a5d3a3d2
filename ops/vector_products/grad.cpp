// Products of vectors as products that broadcast.
#include <fmt/format.h>

#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Both are vectors along the last axis, dot products of equally many elements. Reports others.
bool are_vectors(const LayerContext& context, bool equal) {
  for (size_t i = 0; i < 2; ++i) {
    if (context.operand(i).shape.rank() > 0) continue;
    context.site().bad_operand(i, Diagnosis::kRankMismatch,
                               "a scalar has no axes; expected a vector or more dimensions");
    return false;
  }
  const Shape &a = context.operand(0).shape, &b = context.operand(1).shape;
  if (!equal || a[a.rank() - 1] == b[b.rank() - 1]) return true;
  context.site().bad_operand(1, Diagnosis::kShapeMismatch,
                             fmt::format("vectors of {} and {} elements; expected the same number",
                                         a[a.rank() - 1], b[b.rank() - 1]));
  return false;
}

ir::ValueId expand_dot(LayerContext& context) {
  if (!are_vectors(context, true)) return {};
  const ir::ValueId products = context.add("multiply", "products", context.operands, {});
  if (!products.valid()) return {};
  const int64_t last = context.graph()[products].shape.rank() - 1;
  return context.add("reduce_sum", "", {products},
                     {{"axis", std::vector<int64_t>{last}}, {"keepdims", false}});
}

/// The operand with one more axis of size 1, `from_end` axes before the end.
ir::ValueId with_axis(const LayerContext& context, size_t i, std::string_view part, int from_end) {
  std::vector<int64_t> extents = context.operand(i).shape.extents();
  extents.insert(extents.end() - from_end, 1);
  return context.add("reshape", part, {context.operands[i]}, {{"shape", std::move(extents)}});
}

ir::ValueId expand_outer(LayerContext& context) {
  if (!are_vectors(context, false)) return {};
  const ir::ValueId column = with_axis(context, 0, "column", 0);
  const ir::ValueId row = with_axis(context, 1, "row", 1);
  return context.add("multiply", "", {column, row}, {});
}

}  // namespace

std::span<const Rules> vector_products() {
  static constexpr Rules kRules[] = {{"dot", nullptr, expand_dot},
                                     {"outer", nullptr, expand_outer}};
  return kRules;
}

}  // namespace flow::grad
