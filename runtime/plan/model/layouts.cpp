// How tensors lie on the shards of a batch, as far as records of ops tell.
#include "runtime/plan/model/layouts.h"

#include <algorithm>
#include <optional>

namespace flow::plan {
namespace {

using LayoutKind = ShardLayout::Kind;
using Fault = LayoutFault::Kind;

/// Where no operand is partial. `rows`: does the result depend on the shard's rows?
std::variant<ShardLayout, LayoutFault> layout_from_rows(const ops::Result& result, bool rows) {
  if (result.batch_axis >= 0) return ShardLayout{LayoutKind::kSplit};
  if (result.combine != ops::Combine::kNone)
    return ShardLayout{LayoutKind::kPartial, result.combine};
  if (result.batch_axis == ops::kNoBatch && !rows) return ShardLayout{LayoutKind::kBroadcast};
  return LayoutFault{Fault::kMixesRows};
}

/// Where operand `part` is partial and all are partial or broadcast.
std::optional<LayoutFault> find_nonlinear(const ops::OpSpec& op,
                                          std::span<const ShardLayout> operands, size_t part) {
  const ShardLayout& layout = operands[part];
  const bool adds = layout.combine == ops::Combine::kSum || layout.combine == ops::Combine::kMean;
  const bool linear = std::ranges::find(op.linear, part) != op.linear.end();
  const bool alone = std::ranges::count(operands, LayoutKind::kPartial, &ShardLayout::kind) == 1;
  const auto other =
      std::ranges::find_if_not(operands, [&](const ShardLayout& one) { return one == layout; });
  if (!adds && !op.moves_elements) return LayoutFault{Fault::kReadsPart, part};
  if ((linear && alone) || (op.linear_in_all && other == operands.end())) return {};
  if (!op.linear_in_all) return LayoutFault{Fault::kReadsPart, part};
  return LayoutFault{
      other->kind == LayoutKind::kPartial ? Fault::kPartsDiffer : Fault::kPartialAndBroadcast,
      static_cast<size_t>(other - operands.begin())};
}

}  // namespace

std::variant<ShardLayout, LayoutFault> layout_of_result(const ops::OpSpec& op,
                                                        std::span<const ShardLayout> operands,
                                                        const ops::Result& result) {
  std::optional<size_t> part;
  bool rows = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const LayoutKind kind = operands[i].kind;
    if (kind == LayoutKind::kWhole) return LayoutFault{Fault::kReadsWhole, i};
    if (kind == LayoutKind::kOwn) return LayoutFault{Fault::kReadsOwn, i};
    if (kind == LayoutKind::kPartial && !op.operand(i).per_shard)
      part = part.value_or(i);
    else
      rows |= kind != LayoutKind::kBroadcast;
  }
  if (!part) return layout_from_rows(result, rows);
  if (rows) return LayoutFault{Fault::kReadsPart, *part};
  if (const auto fault = find_nonlinear(op, operands, *part)) return *fault;
  return operands[*part];
}

ShardLayout layout_per_shard(int batch_axis, std::optional<ops::Combine> combine) {
  if (batch_axis >= 0) return {LayoutKind::kSplit};
  if (combine) return {LayoutKind::kPartial, *combine};
  return {LayoutKind::kOwn};
}

}  // namespace flow::plan
