// Ids of tokens in little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace flow::data {

/// A growing array of ids in [0, 2^31), stored as uint8, uint16 or int32: the narrowest type that
/// has all ids so far.
class IdArray {
 public:
  /// REQUIRES: all ids are at least 0.
  void append(std::span<const int32_t> ids);

  size_t size() const;
  int32_t operator[](size_t i) const;
  /// Copies the ids from `first`. REQUIRES: first + out.size() <= size().
  void copy(size_t first, std::span<int64_t> out) const;

  /// Returns the bytes of an element: 1 (uint8), 2 (uint16) or 4 (int32).
  size_t element_bytes() const;
  /// Returns the elements as they are stored. They are valid until the array grows.
  std::span<const std::byte> bytes() const;

 private:
  std::variant<std::vector<uint8_t>, std::vector<uint16_t>, std::vector<int32_t>> ids_;
};

}  // namespace flow::data
