// Axes in another order.
#include <fmt/format.h>

#include <numeric>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "runtime/base/text.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

/// The attribute `perm` as non-negative axes, all of operand 0's, each once.
std::optional<Integers> normalise_perm(Inference& inference) {
  const Shape& x = inference.shape(0);
  const auto rank = static_cast<size_t>(x.rank());
  Integers perm = inference.attribute<Integers>("perm");
  const auto bad = [&](const std::string& message) -> std::optional<Integers> {
    inference.bad_attribute("perm", Diagnosis::kBadAttribute, message)
        .with_hint(rank == 0 ? "remove the op: a scalar has no axes to transpose"
                             : fmt::format("name each of the axes 0 to {} once", rank - 1));
    return {};
  };
  if (perm.empty()) {
    perm.resize(rank);
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  if (perm.size() != rank)
    return bad(fmt::format("`perm` has {} for {}, which has {} axes",
                           counted(perm.size(), "number"), x.str(), rank));
  std::vector<bool> seen(rank);
  for (int64_t& axis : perm) {
    const auto own = axis_in(axis, x.rank());
    if (!own) return bad(fmt::format("{} has no axis {}", x.str(), axis));
    axis = *own;
    if (seen[static_cast<size_t>(axis)])
      return bad(fmt::format("duplicate axis {} in `perm`", axis));
    seen[static_cast<size_t>(axis)] = true;
  }
  inference.normalise("perm", perm);
  return perm;
}

void infer_transpose(Inference& inference) {
  const auto perm = normalise_perm(inference);
  if (!perm) return;
  const ir::Value& x = inference.operand(0);
  Integers extents;
  int rows = x.rows;
  for (size_t i = 0; i < perm->size(); ++i) {
    extents.push_back(x.shape[static_cast<int>((*perm)[i])]);
    if ((*perm)[i] == x.rows) rows = static_cast<int>(i);
  }
  inference.result(x.dtype, Shape(std::move(extents)), rows);
}

std::vector<ir::ValueId> transpose_gradient(GradientContext& context) {
  const Integers perm = context.node.attributes.get<Integers>("perm");
  Integers inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return {context.add("transpose", 0, {context.gradient()}, {{"perm", inverse}})};
}

}  // namespace

std::span<const OpDef> transpose() {
  static const OpDef kOps[] = {{
      .name = "transpose",
      .doc = "Permutes the axes.",
      .formula = "y[i(perm[0]), i(perm[1]), ...] = x[i(0), i(1), ...]",
      .operands = {{"in", "any shape", Accepts::kAny}},
      .attributes = {{"perm", AttributeType::kIntegers, "reversed",
                      "source axis of each result axis; negative values count from the end"}},
      .infer = infer_transpose,
      .gradient = transpose_gradient,
      .examples = {"transpose(f32[3,4])", "transpose(f32[2,3,4,5]) perm=[0,2,1,3]",
                   "transpose(f32[2,3,4]) perm=[1,-1,0]", "transpose(f32[])", "transpose(i64[3,2])",
                   "transpose(bool[5,3,2]) perm=[0,2,1]"},
  }};
  return kOps;
}

}  // namespace flow::defs
