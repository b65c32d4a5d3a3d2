// What a completed call says of itself: its losses, and the error that its fault becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/error.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/run/executor.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Fills in the loss and why it may be NaN, the loss scale and whether the call skipped its update.
/// REQUIRES: a train job.
void read_losses(const Program& program, size_t slot, const plan::Job& job, StepRecord& record);
/// "the loss `loss` is nan", and why where that is known.
std::string text_of_loss(const plan::Optimizer& optimizer, const StepRecord& record);

/// Names the step, the place in the job file, the value and its limit, and where in the data the
/// value is: "step 3: `label` contains 10 at row 13 (row 3900 of data/labels.npy)".
RunError fault_error(const Fault& fault, int64_t step, const plan::Job& job,
                     const InputPipeline& input_pipeline);

}  // namespace flow::exec
