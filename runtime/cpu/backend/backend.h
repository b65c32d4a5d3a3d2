// The CPU backend: oneDNN for convolution and matmul, own kernels for the rest.
#pragma once

#include <memory>
#include <span>

#include "runtime/cpu/kernel.h"
#include "runtime/exec/core/backend.h"

namespace flow::cpu {

std::unique_ptr<exec::Backend> make_backend();

/// Runs jobs of float64 precision on the reference kernels, others on the fast ones; `kernels`
/// forces one table, for tests that compare them.
std::unique_ptr<exec::Backend> make_backend(std::span<const KernelEntry> kernels);

}  // namespace flow::cpu
