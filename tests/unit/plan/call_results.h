// Calls of ops in plans: what they make of operands, or that the check refuses them.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/attributes.h"
#include "runtime/plan/model/plan.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan::sample {

using Entries = std::vector<Attributes::Entry>;
using Results = std::vector<std::pair<DType, Shape>>;

constexpr DType F = DType::kFloat32, I = DType::kInt32, B = DType::kBool;

struct CallOperand {
  DType dtype;
  Shape shape;
};

/// `compute`: the float dtype of the job.
Results results_of(std::string_view op, const std::vector<CallOperand>& operands,
                   const Entries& entries = {}, DType compute = F);
bool refuses(std::string_view op, const std::vector<CallOperand>& operands,
             const Entries& entries = {});

}  // namespace flow::plan::sample
