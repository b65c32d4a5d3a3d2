// Datasets that stay on the device, so that a call receives row numbers instead of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/loops/batch_rows.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// The columns of a job in device memory. Bytes are stored as in the file if there is a table of
/// their values; other elements are converted as they are for a host.
class KeptColumns {
 public:
  /// Keeps no columns.
  KeptColumns() = default;
  /// Copies all columns to the device, and returns when the copies are complete.
  KeptColumns(Driver& driver, Stream stream, const plan::Job& job,
              std::span<const exec::ColumnInput> columns);
  /// Returns the bytes of device memory that the columns take.
  static size_t bytes(const plan::Job& job, std::span<const exec::ColumnInput> columns);

  std::vector<plan::TensorId> inputs() const;
  size_t size() const { return columns_.size(); }
  /// Writes a shard's rows of the batch, whose numbers are in `rows` (on the device), to the input
  /// of column i at `out`.
  void gather(size_t i, const int64_t* rows, int64_t shard, std::byte* out,
              const LaunchState& state) const;

 private:
  struct Column {
    plan::TensorId input;
    int64_t batch;  // the number of rows of a shard
    DeviceBytes rows, table;
    ResidentColumn view;
  };
  std::vector<Column> columns_;
};

}  // namespace flow::cuda
