// Arrays made by other implementations: tests/golden.
#pragma once

#include <map>
#include <string>

#include "runtime/base/array.h"

namespace flow::test {

/// The arrays of tests/golden/NAME.npz, by their names.
std::map<std::string, Array> golden_arrays(const std::string& name);

}  // namespace flow::test
