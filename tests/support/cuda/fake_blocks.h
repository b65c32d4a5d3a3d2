// The allocations of the fake device.
#pragma once

#include <cstddef>
#include <map>

namespace flow::test {

using Blocks = std::map<const std::byte*, size_t>;  // address -> bytes

/// Does one of the blocks hold [memory, memory + bytes)?
inline bool holds(const Blocks& blocks, const void* memory, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(memory);
  auto after = blocks.upper_bound(first);
  if (after == blocks.begin()) return false;
  const auto& [start, size] = *--after;
  const auto offset = static_cast<size_t>(first - start);
  return offset < size && bytes <= size - offset;
}

}  // namespace flow::test
