// `--capture ENTRY@STEP`: what the steps of an entry read and make in one step, as arrays.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/core/run_request.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// "ENTRY@STEP"; RequestError for other text.
CaptureRequest parse_capture(const std::string& text);

/// Deliveries to capture/inputs/NAME and capture/outputs/NAME, one file each. RequestError where
/// the job has no such entry. `job`: for the whole batch. `own`: by tensor, does each shard have
/// its own? Those are left out.
std::vector<Delivery> list_captured(const plan::Job& job, const std::vector<bool>& own,
                                    const CaptureRequest& request);

}  // namespace flow::exec
