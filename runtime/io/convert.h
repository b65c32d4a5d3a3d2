// Converts rows of a file to the values that a job uses: (x * scale - mean) / std, rounded once to
// the input's dtype. Also counts NaN and infinity in the bytes of a data file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/npy.h"

namespace flow::io {

/// Computes x -> (x * scale - mean) / std in float64. mean and std have no value, one, or one per
/// channel.
struct Affine {
  double scale = 1;
  std::vector<double> mean, std;

  size_t channels() const { return std::max({size_t{1}, mean.size(), std.size()}); }
  bool identity() const { return scale == 1 && mean.empty() && std.empty(); }
  double operator()(double x, size_t channel) const;
};

/// An element that could not be converted, because it is not an integer or not in the dtype's
/// range.
struct Misfit {
  size_t element = 0;  // index in the row
  double value = 0;    // after scale, mean and std
};

/// Converts rows of `elements` elements, in which one channel follows the other. Values of single
/// bytes are looked up in a table with 256 entries per channel.
class RowConverter {
 public:
  /// REQUIRES: elements is a multiple of affine.channels().
  /// `narrow` is the element type of the file if `from` is wider.
  RowConverter(DType from, bool big_endian, Affine affine, size_t elements,
               Narrow narrow = Narrow::kNo);

  /// Converts one row. Allocates nothing.
  std::optional<Misfit> convert(const std::byte* from, DType to, std::byte* out);
  /// Returns the values that each byte of each channel is converted to, as [channels, 256] of `to`.
  /// The result is empty if there is no table, or if a byte has no value in `to`. It is valid until
  /// rows are converted to another dtype.
  std::span<const std::byte> table(DType to);
  size_t channels() const { return affine_.channels(); }

 private:
  bool use_table(DType to);
  DType from_;
  Narrow narrow_;
  bool swap_;
  Affine affine_;
  size_t elements_, inner_;
  std::vector<std::byte> table_;  // [channels, 256] of table_dtype_
  std::optional<DType> table_dtype_;
  bool table_whole_ = false;  // true if every byte has a value in table_dtype_
};

/// Returns the number of elements that are NaN or infinite. REQUIRES: a float dtype.
int64_t count_nonfinite(DType dtype, bool big_endian, std::span<const std::byte> elements);

/// Returns "2 values are NaN or infinite in x.npy, first in row 8", where `first` is "in row 8".
std::string nonfinite_text(int64_t count, const fs::path& path, const std::string& first);

}  // namespace flow::io
