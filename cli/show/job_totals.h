// What a job takes as a whole.
#pragma once

#include <cstdint>
#include <set>

#include "runtime/plan/model/plan.h"

namespace flow::cli {

struct JobTotals {
  uint64_t trained = 0, frozen = 0;  // parameters, without the optimizer's own
  uint64_t statistics = 0;           // moving averages of batch normalization
  double forward = 0,
         backward = 0;      // FLOPs of a step in which no probe runs; backward: and updates
  uint64_t memory = 0;      // bytes at the peak, as show_memory counts them
  uint64_t checkpoint = 0;  // bytes of the arrays in it
};

/// Variables that a call changes.
std::set<plan::TensorId> updated_variables(const plan::Job& job);

/// Variables that have moving averages of batch normalization.
std::set<plan::TensorId> moving_statistics(const plan::Job& job);

JobTotals totals_of(const plan::Job& job);

}  // namespace flow::cli
