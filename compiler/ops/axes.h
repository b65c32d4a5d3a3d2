// Axes as the file gives them: negative ones count from the end.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ops/op_def.h"

namespace flow {

/// The attribute `axis`, normalised in place, as an axis of operand i; reports one out of range.
std::optional<int> normalise_axis(Inference& inference, size_t i);

/// The attribute `axis` of a job file replaced by the primitive's `axes`: sorted axes of operand i,
/// all of them where the list is empty. Reports those out of range or repeated.
std::optional<std::vector<int64_t>> normalise_axes(Inference& inference, size_t i);

}  // namespace flow
