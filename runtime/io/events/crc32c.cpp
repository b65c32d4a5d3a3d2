// A byte at a time: event files have a few hundred bytes a step.
#include "runtime/io/events/crc32c.h"

#include <array>
#include <bit>

namespace flow::io {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41 with its bits reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  constexpr uint32_t kMask = 0xa282ead8;
  return std::rotr(crc32c(bytes), 15) + kMask;
}

}  // namespace flow::io
