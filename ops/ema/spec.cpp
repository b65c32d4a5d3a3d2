// Exponential moving averages of variables.
#include <fmt/format.h>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_ema_update(Call& call) {
  const Operand &value = call.operand(0), &ema = call.operand(1);
  if (ema.shape != value.shape)
    call.bad_operand(
        1, Reason::kShapeMismatch,
        fmt::format("an average {} of a variable {}", ema.shape.str(), value.shape.str()));
  else
    call.result(value.dtype, value.shape, kNoBatch);
}

}  // namespace

std::span<const OpSpec> ema() {
  static const OpSpec kOps[] = {{
      .name = "ema_update",
      .doc = "Moves an average toward the new value of its variable.",
      .formula = "ema = value in step 0, else ema + (1 - decay) (value - ema)",
      .operands = {{"value", "the updated variable"}, {"ema", "its average, of the same shape"}},
      .attributes = {{"decay", AttributeType::kNumber, "", "fraction of the average to keep"}},
      .plan_attributes = {{"decay", Kind::kFraction}},
      .results = {{.name = "updated", .updates = size_t{1}}},
      .infer = infer_ema_update,
      .flops = {3},
      .internal = true,
  }};
  return kOps;
}

}  // namespace flow::ops
