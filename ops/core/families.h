// Declares the functions of families.def, each of which returns the records of its family, and
// includes the headers that these functions need.
#pragma once

#include <fmt/format.h>

#include <vector>

#include "ops/core/axes.h"
#include "ops/core/shared_attributes.h"
#include "ops/core/spec.h"

namespace flow::ops {

#define FLOW_FAMILY(family) std::vector<OpSpec> family();
#include "ops/families.def"

}  // namespace flow::ops
