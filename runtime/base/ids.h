// Typed indices, so that a tensor's number is never taken for a step's.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace flow {

/// An index into one kind of vector; negative means none.
template <typename Tag>
struct Id {
  int32_t value = -1;

  Id() = default;
  explicit Id(size_t index) : value(static_cast<int32_t>(index)) {}
  bool valid() const { return value >= 0; }
  size_t index() const { return static_cast<size_t>(value); }
  friend auto operator<=>(const Id&, const Id&) = default;
};

}  // namespace flow
