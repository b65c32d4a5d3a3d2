// Batches taken from a dataset that stays on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/array.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A column of a dataset in device memory, in the type of its file. All addresses are the device's.
struct ResidentColumn {
  const std::byte* rows;
  int64_t row_elements;
  DType stored, wanted;  // equal, unless there is a table
  /// [channels, 256] of `wanted`: what the bytes of each channel mean (stored is uint8); or null.
  const std::byte* table = nullptr;
  int64_t channels = 1;  // leading axis of a row; divides row_elements
};

/// out[i, e] = meaning of rows[indices[i], e], for i < count. Indices are in range.
void gather_rows(const ResidentColumn& column, const int64_t* indices, int64_t count,
                 std::byte* out, const LaunchState& state);

}  // namespace flow::cuda
