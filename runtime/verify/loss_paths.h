// Ways from a tensor to the loss on which its gradient is not that of the loss.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/plan/model/plan.h"

namespace flow::verify {

/// The first step, in plan order, between `tensor` and the loss that stops or rounds gradients: a
/// stop_gradient, a cast, or an op whose result is not a float. "stop_gradient `s` (net.yaml:9:7)";
/// nothing where all ways have gradients. `written_op`: what the author wrote at the entry of that
/// name, "" where there is none. REQUIRES: the job has an optimizer.
std::optional<std::string> broken_path(
    const plan::Job& job, plan::TensorId tensor,
    const std::function<std::string(const std::string&)>& written_op);

}  // namespace flow::verify
