// Rows of pixels as the libraries for PNG and JPEG hold them: the samples of a pixel are neighbors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/data/image/image.h"

namespace flow::data {

/// Copies an interleaved row with the channels and bits of `out` into its row y. REQUIRES: `row`
/// has out.width pixels and is aligned for its samples, and `out` has at most 4 channels.
void split_row(const std::byte* row, int64_t y, Image& out);

/// Copies row y of `image` into an interleaved row. REQUIRES: as for split_row.
void join_row(const Image& image, int64_t y, std::byte* row);

}  // namespace flow::data
