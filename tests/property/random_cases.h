// Random calls of every primitive: odd shapes, more elements than a chunk has, strides, paddings.
#pragma once

#include <string>
#include <vector>

#include "tests/property/kernel_case.h"

namespace flow::test {

/// A call of `op` with shapes, attributes and numbers drawn from `random`.
KernelCase random_case(const std::string& op, Random& random);

/// How many numbers of at most 1 go into one element of the result: what its rounding error is
/// proportional to. 1 for elementwise ops.
int64_t terms_of(const KernelCase& one);

}  // namespace flow::test
