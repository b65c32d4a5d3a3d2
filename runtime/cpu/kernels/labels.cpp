// The check of labels against the number of classes.
#include "runtime/cpu/kernels/labels.h"

namespace flow::cpu {

void LabelCheck::run(const std::byte* labels, const CallState& state) const {
  if (!state.fault || *state.fault) return;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t label = integer_at(dtype, labels, row);
    if (label >= 0 && label < limit) continue;
    *state.fault = exec::Fault{where, operand, place.at(row, state.shard), label, limit};
    return;
  }
}

}  // namespace flow::cpu
