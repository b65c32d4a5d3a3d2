// Any bytes as a PNG image: decoded, fitted and encoded, or refused with a RunError.
#include <zlib.h>

#include "tests/support/image_fuzz.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// Corrects the checksums of all chunks, without which hardly any change would be decoded.
void correct_checksums(std::span<uint8_t> file) {
  constexpr size_t kSignature = 8, kAround = 12;
  for (size_t at = kSignature; at + kAround <= file.size();) {
    const size_t length = big_endian(&file[at]);
    if (length > file.size() - at - kAround) return;
    const auto checksum = crc32(0, &file[at + 4], static_cast<uInt>(4 + length));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<uint8_t>(checksum >> (24 - 8 * i));
    at += kAround + length;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  const size_t changed = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 != 0) correct_checksums({data, changed});
  return changed;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    flow::test::fuzz_image(std::as_bytes(std::span(data, size)));
  } catch (const flow::RunError&) {
  }
  return 0;
}
