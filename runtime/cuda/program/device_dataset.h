// Datasets that stay on the device: a call is told rows, not values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/loops/batch_rows.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// The columns of a job in device memory: bytes as they lie in the file, with a table of what they
/// mean, where there is one; other elements converted as they are for a host.
class KeptColumns {
 public:
  /// Keeps none.
  KeptColumns() = default;
  /// Copies all columns to the device; returns when they are there.
  KeptColumns(Driver& driver, Stream stream, const plan::Job& job,
              std::span<const exec::ColumnInput> columns);
  /// Device memory that they take.
  static size_t bytes(const plan::Job& job, std::span<const exec::ColumnInput> columns);

  std::vector<plan::TensorId> inputs() const;
  size_t size() const { return columns_.size(); }
  /// Writes a shard's rows of the batch, which `rows` (on the device) numbers, to the i-th column's
  /// input at `out`.
  void gather(size_t i, const int64_t* rows, int64_t shard, std::byte* out,
              const LaunchState& state) const;

 private:
  struct Column {
    plan::TensorId input;
    int64_t batch;  // of a shard
    DeviceBytes rows, table;
    ResidentColumn view;
  };
  std::vector<Column> columns_;
};

}  // namespace flow::cuda
