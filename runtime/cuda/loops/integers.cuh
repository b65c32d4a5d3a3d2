// Integers of any dtype as device code reads and writes them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.h"

namespace flow::cuda {

/// Elements of an array on the device; int8, int32, int64 or uint8.
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

/// The same to be written to: values wrap around.
struct IntegerResults {
  std::byte* data;
  DType dtype;

  __device__ void store(int64_t i, int64_t value) const {
    switch (dtype) {
      case DType::kInt8:
        reinterpret_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
        break;
      case DType::kInt32:
        reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
        break;
      case DType::kInt64:
        reinterpret_cast<int64_t*>(data)[i] = value;
        break;
      default:
        reinterpret_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
    }
  }
};

}  // namespace flow::cuda
