// Checks that a call from a plan agrees with the record of its op, before the shape function runs.
#pragma once

#include "ops/core/spec.h"

namespace flow::ops {

/// Reports a wrong number of operands, operands of wrong dtypes, and attributes that are missing,
/// unknown or of a wrong kind.
void check_types(const OpSpec& spec, Call& call);
/// Checks only the attributes.
void check_attributes(const OpSpec& spec, Call& call);

/// Returns true if the operand may have that dtype.
bool accepts(const OperandSpec& operand, DType dtype, const JobTypes& job);
/// Returns the dtypes that an operand may have, in words: "float32 or an integer dtype".
std::string expected_dtypes(Accepts accepts, DType compute);

}  // namespace flow::ops
