// The keys of an entry that calls an op, as text for users.
#pragma once

#include <string>

#include "ops/core/spec.h"

namespace flow::job {

/// Operands, results and attributes of the op, and the keys of every entry that calls it.
std::string describe_call(const ops::OpSpec& op);

}  // namespace flow::job
