// Exponential moving averages of variables, and Lookahead around an optimizer: what a cycle of
// steps starts from, and where it ends.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

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

void infer_lookahead(Call& call) {
  const Operand &first = call.operand(0), &second = call.operand(1);
  if (first.shape != second.shape)
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("{} for {}", second.shape.str(), first.shape.str()));
  else
    call.result(first.dtype, first.shape, kNoBatch);
}

AttributeSpec cycle_steps() { return integer_attribute("steps", "", "steps of a cycle", 1); }

OpSpec lookahead_start() {
  return {.name = "lookahead_start",
          .doc = "Keeps a variable as it is before a cycle of Lookahead (Zhang et al., 2019).",
          .formula = "slow = w where step is a multiple of steps, else slow",
          .operands = {{"weight", "w, before its update"}, {"slow", "optimizer state, like w"}},
          .attributes = {cycle_steps()},
          .results = updated_with({}),
          .infer = infer_lookahead,
          .flops = {0},
          .internal = true};
}

OpSpec lookahead_update() {
  return {.name = "lookahead_update",
          .doc = "Ends a cycle of Lookahead: part of the way from its start to where it led.",
          .formula = "w = slow + alpha (w - slow) where t is a multiple of steps, else w",
          .operands = {{"slow", "the variable before the cycle"},
                       {"updated", "w, the updated variable, of the same shape"}},
          .attributes = {cycle_steps(), required_magnitude("alpha", "part of the way to go")},
          .results = {{.name = "replacement", .replaces = size_t{1}}},
          .infer = infer_lookahead,
          .for_updates = true,
          .flops = {3},
          .internal = true};
}

}  // namespace

std::vector<OpSpec> weight_averages() {
  return {
      {.name = "ema_update",
       .doc = "Moves an average toward the new value of its variable.",
       .formula = "ema = value in step 0, else ema + (1 - decay) (value - ema)",
       .operands = {{"value", "the updated variable"}, {"ema", "its average, of the same shape"}},
       .attributes = {required_fraction("decay", "fraction of the average to keep")},
       .results = updated_with({}),
       .infer = infer_ema_update,
       .flops = {3},
       .internal = true},
      lookahead_start(),
      lookahead_update(),
  };
}

}  // namespace flow::ops
