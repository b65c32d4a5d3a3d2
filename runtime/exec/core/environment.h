// Variables of the environment, which tests replace.
#pragma once

#include <functional>

namespace flow::exec {

/// The value of a variable of the environment, or null.
using Environment = std::function<const char*(const char* name)>;

}  // namespace flow::exec
