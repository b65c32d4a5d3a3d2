// Any bytes as an idx file, plain or gzip: its rows converted, or refused with a RunError.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/io/convert.h"
#include "runtime/io/rows.h"

namespace {

/// Where the bytes can be opened as a file, though none is on disk.
flow::fs::path in_memory(std::span<const std::byte> bytes) {
  static flow::File file = [] {
    const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    return flow::File::open_update("/proc/self/fd/" + std::to_string(descriptor));
  }();
  file.truncate(0);
  file.write_at(0, bytes);
  return file.path();
}

void convert_first_row(const flow::io::Rows& rows, flow::DType dtype) {
  const size_t elements = static_cast<size_t>(rows.shape.elements(1, rows.shape.rank()));
  flow::io::RowConverter converter(rows.dtype, rows.big_endian, {1.0 / 255, {0.5}, {}}, elements);
  // Uninitialized and exactly as long as the row: a byte beyond it is found.
  const auto out = std::make_unique_for_overwrite<std::byte[]>(elements * size_of(dtype));
  converter.convert(rows.data.data(), dtype, out.get());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const flow::io::Rows rows = flow::io::read_idx_rows(
        in_memory(std::as_bytes(std::span(data, size))), [](const flow::Shape&) {});
    if (rows.shape[0] == 0) return 0;
    for (const flow::DType dtype : flow::all_dtypes()) convert_first_row(rows, dtype);
  } catch (const flow::RunError&) {
  }
  return 0;
}
