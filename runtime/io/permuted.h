// Arrays in memory with their axes in another order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/shape.h"

namespace flow::io {

/// The shape whose axis k is axis perm[k] of `shape`.
Shape permuted(const Shape& shape, std::span<const int64_t> perm);

/// Are they matrices of different shapes, and each the shape of the other one transposed?
bool are_transposed(const Shape& a, const Shape& b);

/// Writes an array of `shape`, in C order, as the one of the permuted shape. `element`: bytes of
/// one. REQUIRES: `perm` has each axis once.
void copy_permuted(const std::byte* from, const Shape& shape, std::span<const int64_t> perm,
                   size_t element, std::byte* to);

}  // namespace flow::io
