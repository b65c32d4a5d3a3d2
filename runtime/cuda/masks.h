// What a library's masks of ReLUs say of 0.
#pragma once

#include "runtime/cuda/driver.h"
#include "runtime/cuda/libraries.h"

namespace flow::cuda {

/// A product of zeros that keeps a mask of its ReLU.
MatmulSpec product_of_zeros(DType dtype);

/// Runs the kernel of product_of_zeros(dtype): does its mask call no 0 positive, as a ReLU's
/// gradient wants it? cuBLASLt's documents do not say; other code of NVIDIA's takes 0 for positive.
bool masks_out_zeros(const LibraryKernel& kernel, DType dtype, Driver& driver);

}  // namespace flow::cuda
