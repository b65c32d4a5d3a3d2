// Results that every call computes alike: they are computed once and stay in memory.
#pragma once

#include <cstdint>
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

}  // namespace flow::cuda
