// Whether a call from a plan is what its record says, before its shape function sees it.
#pragma once

#include "ops/core/spec.h"

namespace flow::ops {

/// Reports operands that are too few, too many or of other dtypes, and attributes that are missing,
/// unknown or not of their kind.
void check_types(const OpSpec& spec, Call& call);
/// The same of attributes alone.
void check_attributes(const OpSpec& spec, Call& call);

/// Whether an operand may have that dtype.
bool accepts(const OperandSpec& operand, DType dtype, const JobTypes& job);
/// The dtypes that it may have, in words: "float32 or an integer dtype".
std::string expected_dtypes(Accepts accepts, DType compute);

}  // namespace flow::ops
