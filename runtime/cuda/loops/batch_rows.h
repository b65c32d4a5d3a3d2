// Gathers batches from a dataset that stays in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/array.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A column of a dataset in device memory, with the dtype of its file. All addresses are device
/// addresses.
struct ResidentColumn {
  const std::byte* rows;
  int64_t row_elements;
  DType stored, wanted;  // equal unless there is a table
  /// The value of each byte of each channel, as [channels, 256] of dtype `wanted` (`stored` is then
  /// uint8), or null.
  const std::byte* table = nullptr;
  int64_t channels = 1;  // the extent of a row's leading axis; divides row_elements
};

/// out[i, e] = the value of rows[indices[i], e] for i < count. REQUIRES: The indices are in range.
void gather_rows(const ResidentColumn& column, const int64_t* indices, int64_t count,
                 std::byte* out, const LaunchState& state);

}  // namespace flow::cuda
