// Copies the columns of datasets to the device.
#include "runtime/cuda/program/device_dataset.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/array.h"
#include "runtime/cuda/program/program_memory.h"

namespace flow::cuda {
namespace {

constexpr size_t kStaged = size_t{8} << 20;  // bytes that are converted before each copy

size_t converted_row_bytes(const plan::Tensor& input, const data::Column& column) {
  return bytes_of(column.row_shape(), input.dtype);
}

using Parts = std::vector<std::span<const std::byte>>;

size_t bytes_of_all(const Parts& parts) {
  size_t bytes = 0;
  for (const std::span<const std::byte> part : parts) bytes += part.size();
  return bytes;
}

/// Copies parts of host memory into new device memory, one after another.
DeviceBytes upload(Driver& driver, Stream stream, const Parts& parts) {
  DeviceBytes memory(driver, driver.allocate(std::max(bytes_of_all(parts), kAlignment)));
  std::byte* to = memory.get();
  for (const std::span<const std::byte> part : parts) {
    if (!part.empty()) driver.copy(to, part.data(), part.size(), stream);
    to += part.size();
  }
  driver.synchronize(stream);
  return memory;
}

/// Copies all rows to the device. They are converted on the host in parts.
DeviceBytes upload_converted(Driver& driver, Stream stream, const plan::Tensor& input,
                             data::Column& column) {
  const size_t row_bytes = converted_row_bytes(input, column);
  const auto rows = static_cast<size_t>(column.rows());
  DeviceBytes memory(driver, driver.allocate(std::max(rows * row_bytes, kAlignment)));
  const size_t part = std::max<size_t>(1, kStaged / std::max<size_t>(1, row_bytes));
  std::vector<std::byte> staged(std::min(part, rows) * row_bytes);
  for (size_t first = 0; first < rows && row_bytes > 0; first += part) {
    std::vector<int64_t> numbers(std::min(part, rows - first));
    std::iota(numbers.begin(), numbers.end(), static_cast<int64_t>(first));
    const std::span<std::byte> bytes(staged.data(), numbers.size() * row_bytes);
    column.read(numbers, input.dtype, bytes);
    driver.copy(memory.get() + first * row_bytes, bytes.data(), bytes.size(), stream);
    driver.synchronize(stream);
  }
  return memory;
}

}  // namespace

size_t KeptColumns::bytes(const plan::Job& job, std::span<const exec::ColumnInput> columns) {
  size_t sum = 0;
  for (const auto& [id, column] : columns) {
    const plan::Tensor& input = job[id];
    if (const auto bytes = column->byte_rows(input.dtype))
      sum += aligned(bytes_of_all(bytes->parts)) + aligned(bytes->table.size());
    else
      sum += aligned(static_cast<size_t>(column->rows()) * converted_row_bytes(input, *column));
  }
  return sum;
}

KeptColumns::KeptColumns(Driver& driver, Stream stream, const plan::Job& job,
                         std::span<const exec::ColumnInput> columns) {
  for (const auto& [id, column] : columns) {
    const plan::Tensor& input = job[id];
    Column kept{id, input.shape[0], {}, {}, {}};
    kept.view.row_elements = column->row_shape().elements();
    kept.view.stored = kept.view.wanted = input.dtype;
    if (const auto bytes = column->byte_rows(input.dtype)) {
      kept.rows = upload(driver, stream, bytes->parts);
      kept.table = upload(driver, stream, {bytes->table});
      kept.view.stored = DType::kUInt8;
      kept.view.table = kept.table.get();
      kept.view.channels = static_cast<int64_t>(bytes->channels);
    } else {
      kept.rows = upload_converted(driver, stream, input, *column);
    }
    kept.view.rows = kept.rows.get();
    columns_.push_back(std::move(kept));
  }
}

std::vector<plan::TensorId> KeptColumns::inputs() const {
  std::vector<plan::TensorId> inputs;
  for (const Column& column : columns_) inputs.push_back(column.input);
  return inputs;
}

void KeptColumns::gather(size_t i, const int64_t* rows, int64_t shard, std::byte* out,
                         const LaunchState& state) const {
  const int64_t batch = columns_[i].batch;
  gather_rows(columns_[i].view, rows + shard * batch, batch, out, state);
}

}  // namespace flow::cuda
