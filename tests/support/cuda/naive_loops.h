// What the plain loops of the stand-in libraries share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/loops/launch.h"
#include "tests/support/races/hooks.h"

namespace flow::cuda {

inline constexpr LaunchShape kOneThread{};

/// The loops are too long to be heard of access by access.
template <typename T>
void note(const T* memory, int64_t elements, test::Access kind) {
  if (memory) test::note_access(memory, static_cast<size_t>(elements) * sizeof(T), kind);
}

template <typename T>
const T* as(const std::byte* memory) {
  return reinterpret_cast<const T*>(memory);
}
template <typename T>
T* as(std::byte* memory) {
  return reinterpret_cast<T*>(memory);
}

}  // namespace flow::cuda
