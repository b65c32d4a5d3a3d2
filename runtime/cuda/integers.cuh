// Integers of any dtype as device code reads them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

namespace flow::cuda {

/// An array on the device; int8, int32, int64 or uint8.
struct Integers {
  const std::byte* data;
  DType dtype;

  __device__ int64_t operator[](int64_t i) const {
    switch (dtype) {
      case DType::kInt8:
        return reinterpret_cast<const int8_t*>(data)[i];
      case DType::kInt32:
        return reinterpret_cast<const int32_t*>(data)[i];
      case DType::kInt64:
        return reinterpret_cast<const int64_t*>(data)[i];
      default:
        return reinterpret_cast<const uint8_t*>(data)[i];
    }
  }
};

}  // namespace flow::cuda
