// Steps of a recurrent layer with the product of their input: ONNX has both in one operator.
#pragma once

#include <optional>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::onnx {

/// What ONNX's operator reads in the place of `step`: the input (N T, F), its weight and bias,
/// weight and bias of the state, initial states, and lengths where the step has them. An invalid
/// id: no bias, or zeros. Nothing if something else makes the gates.
std::optional<std::vector<plan::TensorId>> recurrent_operands(const plan::Job& job,
                                                              const plan::Step& step);

}  // namespace flow::onnx
