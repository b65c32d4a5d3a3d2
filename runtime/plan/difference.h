// Where two plans part, in words of the job file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// One value that is not the same in both, as JSON; absent where the plan has none.
struct Difference {
  std::string path;  // "train.steps[lenet/conv1/conv].attributes.strides"
  std::optional<std::string> a, b;
};

/// All that differs in what the plans do, in their order. What stands in a list under a name is
/// compared with what has the same name in the other; places in files, the root and notes are left
/// out.
std::vector<Difference> differences(const Plan& a, const Plan& b);

}  // namespace flow::plan
