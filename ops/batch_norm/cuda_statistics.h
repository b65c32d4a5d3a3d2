// The updates of batch_norm's moving averages.
#pragma once

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

Updates prepare_move_statistics(std::span<const Request> requests);

}  // namespace flow::cuda
