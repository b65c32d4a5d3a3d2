// Who makes and reads each tensor of a job.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Of one tensor. Probes do not count but as `seen`: what passes change may not depend on what is
/// watched.
struct TensorUses {
  std::vector<size_t> readers;  // steps, one for each operand
  bool seen = false;            // by probes, or from outside
  std::optional<size_t> maker;
};

/// By tensor. `visible`: what is seen from outside.
std::vector<TensorUses> find_uses(const plan::Job& job, std::span<const plan::TensorId> visible);

}  // namespace flow::cuda
