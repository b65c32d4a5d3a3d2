// Random calls of every primitive: odd shapes, more elements than a chunk has, strides, paddings.
#pragma once

#include <string>
#include <vector>

#include "tests/property/kernel_case.h"

namespace flow::test {

/// A call of `op` drawn from `random`: by its maker in tests/property/cases, where shapes,
/// attributes and numbers need one, else from the examples.
KernelCase random_case(const std::string& op, Random& random);

/// How many numbers of at most 1 go into one element of the result: what its rounding error is
/// proportional to.
int64_t terms_of(const KernelCase& one);

}  // namespace flow::test
