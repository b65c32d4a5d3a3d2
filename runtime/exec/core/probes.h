// Which steps run only for what is delivered.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// For each step that is a probe, the indices of the deliverables that cannot be made without it,
/// here or from what is transferred; nothing for the other steps.
std::vector<std::vector<size_t>> readers_of_probes(
    const plan::Job& job, std::span<const plan::TensorId> deliverables,
    std::span<const TransferredTensor> transferred = {});

}  // namespace flow::exec
