// The check of labels against the number of classes.
#include "ops/core/cpu_labels.h"

namespace flow::cpu {

void LabelCheck::run(const std::byte* labels, const CallState& state) const {
  for (int64_t row = 0; row < rows && state.fault && !*state.fault; ++row)
    check(integer_at(dtype, labels, row), row, state);
}

void LabelCheck::check(int64_t label, int64_t row, const CallState& state) const {
  if ((label >= 0 && label < limit) || !state.fault || *state.fault) return;
  *state.fault = exec::Fault{where, operand, place.at(row, state.shard), label, limit};
}

}  // namespace flow::cpu
