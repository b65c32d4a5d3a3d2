// CUDA's errors as RunErrors that say what to do.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace flow::cuda {

/// "out of memory (cudaErrorMemoryAllocation)"
std::string words_of(cudaError_t error);
/// What the user can do about it; empty where flow knows nothing.
std::string remedy_for(cudaError_t error);

/// Throws where `error` is one: "`what` failed on `device`: CUDA's words".
void check(cudaError_t error, std::string_view what, std::string_view device);

}  // namespace flow::cuda
