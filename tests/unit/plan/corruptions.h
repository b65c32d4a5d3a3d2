// Corruptions of a sample plan, each of which the check must refuse.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/model/plan.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan::sample {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// What the check says of a plan called a.plan; nothing when it passes.
std::string refusal(const Plan& plan);

struct Corruption {
  std::string expected;  // in the message
  std::function<void(Job&)> corrupt;
};

/// Each corruption of the plan's train job must be refused with its message, lifetimes assigned
/// again where asked, so that nothing else is wrong.
void check_corruptions(const std::vector<Corruption>& corruptions, bool lifetimes = false,
                       const Plan& from = full_plan());

Step& step_named(Job& job, std::string_view name);
Tensor& tensor_named(Job& job, std::string_view name);
TensorId id_named(const Job& job, std::string_view name);

}  // namespace flow::plan::sample
