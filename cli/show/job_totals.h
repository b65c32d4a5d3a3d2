// What a job takes as a whole, and what it holds in memory at each step of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "runtime/exec/core/memory.h"
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

/// A call's results: who lives when, and how much that is at each step.
struct StepMemory {
  explicit StepMemory(const plan::Job& job);
  size_t peak() const { return live.empty() ? 0 : live[fullest]; }
  /// Results that live at the fullest step, the largest first.
  std::vector<exec::Holding> at_peak() const;

  std::vector<exec::Holding> holdings;
  std::vector<std::vector<const exec::Holding*>> made;  // by step
  std::vector<size_t> live;                             // by step: bytes
  size_t fullest = 0;                                   // step
  size_t variables = 0, inputs = 0;                     // bytes, during the whole call
};

}  // namespace flow::cli
