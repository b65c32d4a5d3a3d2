// Which steps compute constants, and which run at the same time on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

struct Constants {
  std::vector<uint8_t> steps;           // by step: does it compute a constant?
  std::vector<plan::TensorId> tensors;  // their results
};

/// Steps of ops without operands. Large results are no constants: their memory is worth more than
/// the time to fill it.
Constants find_constants(const plan::Job& job);

/// By step: does it run beside the step before it? So do the gradients of a product or a
/// convolution, which read the same gradient of the result: neither fills a device to its end.
/// `owners`: by tensor, whose memory it lies in; `parts`: of a call, by step.
std::vector<uint8_t> find_parallel_steps(const plan::Job& job,
                                         std::span<const plan::TensorId> owners,
                                         std::span<const size_t> parts);

}  // namespace flow::cuda
