// Tests kernels of products that have a relu, or that store or read additional data, before a job
// relies on them.
#pragma once

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

/// Runs the kernel of `spec`, which has a relu or an aside, on operands whose result is known, and
/// checks its output. A relu must keep NaN. A mask that the kernel stores must not mark 0 as
/// positive and must let NaN pass, as the gradient of a relu requires: cuBLASLt's documentation
/// does not specify this, each of its algorithms may behave differently, and other NVIDIA code
/// treats 0 as positive. A mask that the kernel reads, and sums that it stores, must agree with
/// their description in Aside. Also returns false if the library does not run the kernel after all.
/// Throws RunError if the device fails.
bool passes_validation(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver);

struct Product {
  const LibraryKernel& kernel;
  const MatmulSpec& spec;
};

/// Returns true if `reader` applies each bit of the mask that `writer` stores to the same element
/// as `writer`. Both run on a pattern of signs, and `reader` must keep its result where that of
/// `writer` is positive. REQUIRES: Both results have the same shape. Throws RunError if the device
/// fails.
bool reads_mask_of(const Product& reader, const Product& writer, Driver& driver);

}  // namespace flow::cuda
