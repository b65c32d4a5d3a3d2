// Looks for NaN and infinity in the bytes of a data file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/dtype.h"
#include "runtime/base/file.h"

namespace flow::io {

/// How many elements are NaN or infinite. REQUIRES: a float dtype.
int64_t count_nonfinite(DType dtype, bool big_endian, std::span<const std::byte> elements);

/// "2 values are NaN or infinite in x.npy, first in row 8"; `first`: "in row 8".
std::string nonfinite_text(int64_t count, const fs::path& path, const std::string& first);

}  // namespace flow::io
