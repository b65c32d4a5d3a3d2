// Products with a relu, or that store or read something aside, tried before a job relies on them.
#pragma once

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

/// Runs the kernel of `spec`, which has a relu or something aside, on operands whose result is
/// known, and looks at what it leaves. A relu must keep NaN. A mask that it stores may call no 0
/// positive, and must let NaN pass, as a relu's gradient wants it: cuBLASLt's documents do not say,
/// each of its algorithms may answer on its own, and other code of NVIDIA's takes 0 for positive. A
/// mask that it reads and sums must be what they are said to be. False, too, where the library does
/// not run it after all. RunError where the device fails.
bool passes_validation(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver);

struct Product {
  const LibraryKernel& kernel;
  const MatmulSpec& spec;
};

/// Does `reader` take each bit of the mask that `writer` stores for the element that it is of? Both
/// run on a pattern of signs, and `reader` must keep its result where that of `writer` is positive.
/// REQUIRES: results of one shape. RunError where the device fails.
bool reads_mask_of(const Product& reader, const Product& writer, Driver& driver);

}  // namespace flow::cuda
