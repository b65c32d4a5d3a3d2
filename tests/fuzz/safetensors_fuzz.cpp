// Any bytes as a .safetensors file, each array of it read, and as the index of a set: good, or
// refused with a RunError.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "runtime/base/error.h"
#include "runtime/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const flow::io::Safetensors file(bytes, "fuzz");
    size_t sum = 0;
    for (const auto& [name, array] : file.arrays()) {
      const auto part = file.bytes_of(array);
      FLOW_CHECK(!array.dtype || part.size() == static_cast<size_t>(array.shape.elements()) *
                                                    flow::size_of(*array.dtype));
      sum = std::accumulate(part.begin(), part.end(), sum, [](size_t all, std::byte one) {
        return all * 31 + std::to_integer<size_t>(one);
      });
    }
    [[maybe_unused]] static volatile size_t seen;  // so that every byte is read
    seen = sum;
  } catch (const flow::RunError&) {
  }
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& [array, file] : flow::io::parse_safetensors_index(text, "fuzz"))
      FLOW_CHECK(file.find('/') == file.npos);
  } catch (const flow::RunError&) {
  }
  return 0;
}
