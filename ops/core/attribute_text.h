// A value of an attribute as text.
#pragma once

#include <string>

#include "ops/core/attributes.h"

namespace flow::ops {

/// "true", "0.1", "same", "[2, 2]", "float32"
std::string text_of(const Attribute& attribute);

}  // namespace flow::ops
