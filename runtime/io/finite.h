// Looks for NaN and infinity in the bytes of a data file.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"

namespace flow::io {

/// How many elements are NaN or infinite. REQUIRES: a float dtype.
int64_t count_nonfinite(DType dtype, bool big_endian, std::span<const std::byte> elements);

}  // namespace flow::io
