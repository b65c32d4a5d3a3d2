// Reads and writes integers of any dtype in device code, and checks integers that must be in range,
// such as labels and indices.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "runtime/base/array.h"
#include "runtime/base/index_maps.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

/// The elements of an array in device memory, of dtype int8, int32, int64 or uint8.
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

/// A writable array of integers of any dtype. Stored values wrap around.
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

/// A check that `count` integers are in [0, limit).
struct RangeCheck {
  int64_t count, limit;
  WholeIndex place;
  int32_t number;  // the value of FaultBlock::check
};

inline RangeCheck add_check(const Request& request, const TensorDesc& integers, int64_t limit) {
  request.checks.push_back({request.step.where, std::string(integers.name), limit});
  return {integers.shape.elements(), limit,
          whole_index(integers.shape, integers.batch_axis, request.shards),
          static_cast<int32_t>(request.checks.size())};
}

/// Reports the first of the out-of-range integers that the threads found, unless the call already
/// has a fault. A thread that found none passes check.count. REQUIRES: Called by one block of whole
/// warps with the shared memory for over_block.
__device__ inline void report_first(int64_t found, const Integers& integers,
                                    const RangeCheck& check, const CallBlock* call,
                                    FaultBlock* fault) {
  const int64_t first = over_block(found, Smaller{});
  if (threadIdx.x == 0 && first < check.count && fault->check == 0)
    *fault = {check.number, check.place.at(first, call->shard), integers[first]};
}

/// Reports the first integer that is out of range, under the requirements of report_first.
__device__ inline void check_range(const Integers& integers, const RangeCheck& check,
                                   const CallBlock* call, FaultBlock* fault) {
  int64_t first = check.count;
  for (int64_t i = threadIdx.x; i < check.count && first == check.count; i += blockDim.x)
    if (integers[i] < 0 || integers[i] >= check.limit) first = i;
  report_first(first, integers, check, call, fault);
}

}  // namespace flow::cuda
