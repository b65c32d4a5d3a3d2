// Tensors that passes add in the place of those of the plan.
#pragma once

#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// `made` has the elements of `of`, rounded to 16 bits or not.
struct Version {
  plan::TensorId made, of;
  bool channels_last = false;  // [N, H, W, C], of [N, C, H, W]
};

using Versions = std::vector<Version>;

}  // namespace flow::cuda
