// Turns CUDA's errors into RunErrors with remedies.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace flow::cuda {

/// Returns the text of an error, such as "out of memory (cudaErrorMemoryAllocation)".
std::string words_of(cudaError_t error);
/// Returns a remedy for the user, or an empty string if there is no known remedy.
std::string remedy_for(cudaError_t error);

/// Throws "`what` failed on `device`: CUDA's message" if `error` is an error.
void check(cudaError_t error, std::string_view what, std::string_view device);

}  // namespace flow::cuda
