// Gathers batches from a dataset in device memory: copies rows unchanged, or looks up their bytes
// in a table.
#include "runtime/cuda/loops/batch_rows.h"

#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

template <typename T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T values[kCount];
};

/// out[i, e] = rows[indices[i], e] for n packs of elements. Each row has `row` packs.
template <typename T>
__global__ void copy_rows(const T* rows, const int64_t* indices, int64_t row, T* out, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t at = i / row;
    out[i] = rows[indices[at] * row + (i - at * row)];
  }
}

/// out[i, c, e] = table[c, rows[indices[i], c, e]] for n packs of kCount elements. Each row has
/// `row` packs and each channel of a row has `channel` packs.
template <typename T, int kCount>
__global__ void look_up_rows(const Pack<uint8_t, kCount>* rows, const int64_t* indices, int64_t row,
                             int64_t channel, const T* table, Pack<T, kCount>* out, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t at = i / row, own = i - at * row;
    const Pack<uint8_t, kCount> bytes = rows[indices[at] * row + own];
    const T* meanings = table + own / channel * 256;
    Pack<T, kCount> pack;
    for (int k = 0; k < kCount; ++k) pack.values[k] = meanings[bytes.values[k]];
    out[i] = pack;
  }
}

/// Copies rows of `bytes` bytes each, in elements of sizeof(T) bytes.
template <typename T>
void copy_rows_by(const ResidentColumn& column, int64_t bytes, const int64_t* indices,
                  int64_t count, std::byte* out, const LaunchState& state) {
  const auto row = bytes / static_cast<int64_t>(sizeof(T));
  launch(state.driver, state.stream, "gather_rows", shape_for(row * count), copy_rows<T>,
         reinterpret_cast<const T*>(column.rows), indices, row, reinterpret_cast<T*>(out),
         row * count);
}

template <typename T, int kCount>
void launch_look_up(const ResidentColumn& column, const int64_t* indices, int64_t count,
                    std::byte* out, const LaunchState& state) {
  const int64_t row = column.row_elements / kCount;
  launch(state.driver, state.stream, "gather_rows", shape_for(row * count), look_up_rows<T, kCount>,
         reinterpret_cast<const Pack<uint8_t, kCount>*>(column.rows), indices, row,
         row / column.channels, reinterpret_cast<const T*>(column.table),
         reinterpret_cast<Pack<T, kCount>*>(out), row * count);
}

/// T is any type with the size of the table's elements.
template <typename T>
void look_up(const ResidentColumn& column, const int64_t* indices, int64_t count, std::byte* out,
             const LaunchState& state) {
  constexpr int kCount = sizeof(T) <= 4 ? 4 : 2;
  const bool packs = column.row_elements / column.channels % kCount == 0;
  const auto run = packs ? launch_look_up<T, kCount> : launch_look_up<T, 1>;
  run(column, indices, count, out, state);
}

}  // namespace

void gather_rows(const ResidentColumn& column, const int64_t* indices, int64_t count,
                 std::byte* out, const LaunchState& state) {
  const size_t size = size_of(column.wanted);
  if (column.table) {
    const auto run = size == 1   ? look_up<uint8_t>
                     : size == 2 ? look_up<uint16_t>
                     : size == 4 ? look_up<uint32_t>
                                 : look_up<uint64_t>;
    return run(column, indices, count, out, state);
  }
  const int64_t bytes = column.row_elements * static_cast<int64_t>(size);
  const auto run = bytes % 16 == 0  ? copy_rows_by<Pack<uint32_t, 4>>
                   : bytes % 4 == 0 ? copy_rows_by<uint32_t>
                                    : copy_rows_by<uint8_t>;
  run(column, bytes, indices, count, out, state);
}

}  // namespace flow::cuda
