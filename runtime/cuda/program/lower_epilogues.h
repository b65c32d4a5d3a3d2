// A job as CUDA runs it: kernels fuse other epilogue ops than a CPU's, and variables are updated
// together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The job with a step for every epilogue op that its kernel does not take (see TakesEpilogue
/// in kernel.h). What the original step made, the last of them makes; new tensors between them
/// stand behind the others. A convolution of 16-bit operands makes 16 bits, of which a cast makes
/// what the plan has.
plan::Job lower_epilogues(const plan::Job& job);

/// Steps [first, end): updates by one op with equal attributes, launched as one.
struct UpdateGroup {
  size_t first, end;
};

struct Grouped {
  plan::Job job;
  std::vector<UpdateGroup> updates;  // in order; every update is in one
};

/// Moves the updates of variables to the end of the call, where nothing reads the variables any
/// more, and brings together those that can be launched as one. Averages of variables come last. An
/// update whose result another step reads stays where it is.
Grouped group_updates(const plan::Job& job);

/// By step of `made`, which stems from `job`, the part of a call in which it runs. Where the batch
/// is cut, 0 for the steps of shards and 1 behind them. Else the segment of the step that it comes
/// from, by its name, or of what it was moved behind. `ends`: of the job's segments; empty: there
/// is one.
std::vector<size_t> parts_of(const plan::Job& job, std::span<const size_t> ends,
                             const plan::Job& made);

}  // namespace flow::cuda
