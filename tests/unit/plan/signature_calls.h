// Calls of a signature: what it makes of operands, or that it refuses them.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "runtime/plan/plan.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan::sample {

using Entries = std::vector<Attributes::Entry>;
using Results = std::vector<std::pair<DType, Shape>>;

constexpr DType F = DType::kFloat32, I = DType::kInt32, B = DType::kBool;

struct Operand {
  DType dtype;
  Shape shape;
};

/// `number`: the floats of the job.
Results results_of(std::string_view op, const std::vector<Operand>& operands,
                   const Entries& entries = {}, DType number = F);
bool refuses(std::string_view op, const std::vector<Operand>& operands,
             const Entries& entries = {});

}  // namespace flow::plan::sample
