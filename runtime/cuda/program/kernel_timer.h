// Kernels of a step, chosen by time.
#pragma once

#include <string>

#include "runtime/cuda/libraries/plan_cache.h"
#include "runtime/cuda/libraries/stopwatch.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Runs each kernel on operands of its own and takes the fastest, the first of equal ones. What it
/// is given outlives it.
class KernelTimer : public StepTimer {
 public:
  KernelTimer(Driver& driver, const Choices& choices);
  size_t fastest(const std::string& key, const Request& request,
                 std::span<const Kernel> kernels) override;

 private:
  std::optional<size_t> measure(const Request& request, std::span<const Kernel> kernels) const;

  Driver& driver_;
  const Choices& choices_;
  Stopwatch stopwatch_;
};

}  // namespace flow::cuda
