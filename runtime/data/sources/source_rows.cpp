// The default ways to find the error and the class of a row.
#include "runtime/data/sources/source_rows.h"

#include <bit>
#include <cmath>

#include "runtime/io/convert.h"

namespace flow::data {

RunError SourceRows::bad_row(int64_t row) const {
  try {
    Scratch scratch;
    recovering([&] { read(row, {}, scratch); });
  } catch (const BadRowError& error) {
    return error;
  }
  return RunError(row_text(row) + ": changed while it was read");
}

std::vector<int64_t> SourceRows::class_ids(std::span<const int64_t> rows) const {
  const StoredElement type = element();
  const auto elements = static_cast<size_t>(row_elements());
  io::RowConverter converter(type.dtype, type.big_endian, {}, elements, type.narrow);
  std::vector<double> values(elements);
  std::vector<int64_t> ids;
  Scratch scratch;
  recovering([&] {
    for (const int64_t row : rows) {
      converter.convert(read(row, {}, scratch).data(), DType::kFloat64,
                        reinterpret_cast<std::byte*>(values.data()));
      const double value = values.front();
      const bool whole = std::abs(value) < 0x1p53 && value == std::trunc(value);
      ids.push_back(whole ? static_cast<int64_t>(value) : std::bit_cast<int64_t>(value));
    }
  });
  return ids;
}

}  // namespace flow::data
