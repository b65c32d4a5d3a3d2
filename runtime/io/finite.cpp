// Looks for NaN and infinity: both have an exponent of ones, whatever the byte order.
#include "runtime/io/finite.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/text.h"

namespace flow::io {
namespace {

template <typename Bits>
Bits swapped(Bits bits) {
  Bits made = 0;
  for (size_t i = 0; i < sizeof(Bits); ++i)
    made = static_cast<Bits>(made << 8 | (bits >> (8 * i) & 0xFF));
  return made;
}

template <typename Bits>
int64_t count(std::span<const std::byte> elements, Bits exponent, bool big_endian) {
  if (big_endian != (std::endian::native == std::endian::big)) exponent = swapped(exponent);
  const std::byte* from = elements.data();
  int64_t found = 0;
  for (size_t i = 0; i < elements.size() / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof(Bits), sizeof(Bits));
    found += (bits & exponent) == exponent;
  }
  return found;
}

}  // namespace

int64_t count_nonfinite(DType dtype, bool big_endian, std::span<const std::byte> elements) {
  switch (dtype) {
    case DType::kFloat64:
      return count(elements, uint64_t{0x7FF} << 52, big_endian);
    case DType::kFloat32:
      return count(elements, uint32_t{0xFF} << 23, big_endian);
    case DType::kFloat16:
      return count(elements, uint16_t{0x7C00}, big_endian);
    case DType::kBFloat16:
      return count(elements, uint16_t{0x7F80}, big_endian);
    default:
      FLOW_CHECK(false, "dtype {}", name_of(dtype));
  }
}

std::string nonfinite_text(int64_t count, const fs::path& path, const std::string& first) {
  return fmt::format("{} {} NaN or infinite in {}, first {}",
                     counted(static_cast<uint64_t>(count), "value"), count == 1 ? "is" : "are",
                     path.string(), first);
}

}  // namespace flow::io
