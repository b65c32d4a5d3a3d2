// What a library's masks of ReLUs say of 0.
#pragma once

#include "runtime/cuda/driver.h"
#include "runtime/cuda/libraries.h"

namespace flow::cuda {

/// Runs the kernel of `spec`, which stores a mask, on zeros: does its mask call no 0 positive, as a
/// ReLU's gradient wants it? cuBLASLt's documents do not say, and each of its algorithms may answer
/// on its own; other code of NVIDIA's takes 0 for positive. False, too, where the library does not
/// run it after all. RunError where the device fails.
bool masks_out_zeros(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver);

}  // namespace flow::cuda
