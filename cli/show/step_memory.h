// What a job holds in memory at each step of a call.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

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
