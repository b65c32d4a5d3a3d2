// CRC32C (Castagnoli, RFC 3720), which frames the records of TFRecord files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flow::io {

uint32_t crc32c(std::span<const std::byte> bytes);

/// As TFRecord stores it: rotated by 15 bits, plus a constant, so that the checksum of data that
/// holds checksums stays a good one (tensorflow/core/lib/hash/crc32c.h).
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace flow::io
