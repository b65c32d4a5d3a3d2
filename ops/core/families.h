// The functions behind families.def: each returns the records of its family.
#pragma once

#include <span>

#include "ops/core/spec.h"

namespace flow::ops {

#define FLOW_FAMILY(family) std::span<const OpSpec> family();
#include "ops/families.def"

}  // namespace flow::ops
