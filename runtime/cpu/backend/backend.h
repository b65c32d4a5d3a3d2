// The CPU backend, which uses oneDNN for convolution and matmul, and the project's own kernels for
// all other ops.
#pragma once

#include <memory>
#include <span>

#include "runtime/cpu/kernel.h"
#include "runtime/exec/core/backend.h"

namespace flow::cpu {

std::unique_ptr<exec::Backend> make_backend();

/// Returns a backend that runs all jobs on `kernels`, for tests that compare tables of kernels. If
/// `kernels` is empty, jobs of float64 precision run on the reference kernels and all others on the
/// fast ones.
std::unique_ptr<exec::Backend> make_backend(std::span<const KernelEntry> kernels);

}  // namespace flow::cpu
