// The record of transpose, which reorders axes.
#include <numeric>

#include "ops/core/families.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

/// Counts the axes in the attribute `perm` from the front. Axes that operand 0 does not have stay
/// unchanged. An empty list becomes all axes in reverse order.
void normalize_perm(Call& call, Attributes& attributes) {
  const int rank = call.shape(0).rank();
  Integers perm = call.integers("perm");
  if (perm.empty()) {
    perm.resize(static_cast<size_t>(rank));
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  for (int64_t& axis : perm) axis = axis_in(axis, rank).value_or(axis);
  attributes.set("perm", std::move(perm));
}

/// Returns true if the attribute `perm` names each axis of operand 0 once; otherwise reports an
/// error.
bool is_permutation_of_axes(Call& call) {
  const Shape& x = call.shape(0);
  const auto rank = static_cast<size_t>(x.rank());
  const Integers& perm = call.integers("perm");
  const auto bad = [&](std::string message) {
    call.bad_attribute("perm", Reason::kBadAttribute, std::move(message))
        .with_hint(rank == 0 ? "remove the op: a scalar has no axes to transpose"
                             : fmt::format("name each of the axes 0 to {} once", rank - 1));
    return false;
  };
  if (perm.size() != rank)
    return bad(fmt::format("`perm` has {} for {}, which has {} axes",
                           counted(perm.size(), "number"), x.str(), rank));
  std::vector<bool> seen(rank);
  for (const int64_t axis : perm) {
    if (axis < 0 || axis >= x.rank()) return bad(fmt::format("{} has no axis {}", x.str(), axis));
    if (seen[static_cast<size_t>(axis)])
      return bad(fmt::format("duplicate axis {} in `perm`", axis));
    seen[static_cast<size_t>(axis)] = true;
  }
  return true;
}

void infer_transpose(Call& call) {
  if (!is_permutation_of_axes(call)) return;
  const Operand& x = call.operand(0);
  const Integers& perm = call.integers("perm");
  Integers extents;
  int batch_axis = x.batch_axis;
  for (size_t i = 0; i < perm.size(); ++i) {
    extents.push_back(x.shape[static_cast<int>(perm[i])]);
    if (perm[i] == x.batch_axis) batch_axis = static_cast<int>(i);
  }
  call.result(x.dtype, Shape(std::move(extents)), batch_axis);
}

}  // namespace

std::vector<OpSpec> transpose() {
  return {{.name = "transpose",
           .doc = "Permutes the axes.",
           .formula = "y[i(perm[0]), i(perm[1]), ...] = x[i(0), i(1), ...]",
           .operands = {{"in", "any shape", Accepts::kAny}},
           .attributes = {{"perm", AttributeType::kIntegers, "reversed",
                           "source axis of each result axis; negative values count from the end"}},
           .normalize = normalize_perm,
           .infer = infer_transpose,
           .linear = {0},
           .moves_elements = true,
           .rounds_operands = rounds_always,
           .flops = {0},
           .numpy = "np.transpose(x, perm)",
           .examples = {"transpose(f32[3,4])", "transpose(f32[2,3,4,5]) perm=[0,2,1,3]",
                        "transpose(f32[2,3,4]) perm=[1,-1,0]", "transpose(f32[])",
                        "transpose(i64[3,2])", "transpose(bool[5,3,2]) perm=[0,2,1]"}}};
}

}  // namespace flow::ops
