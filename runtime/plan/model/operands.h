// What a step reads.
#pragma once

#include <algorithm>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Calls visit(id) for each tensor that the step reads: its inputs, then the operands of fused ops.
template <typename Visit>
void visit_operands(const Step& step, const Visit& visit) {
  std::ranges::for_each(step.inputs, visit);
  for (const EpilogueOp& fused : step.epilogue) std::ranges::for_each(fused.operands, visit);
}

}  // namespace flow::plan
