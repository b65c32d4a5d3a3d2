// Fingerprints of tensors in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"
#include "runtime/base/fingerprint.h"
#include "runtime/base/shape.h"
#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// A tensor, or the part of it that a shard has.
struct FingerprintSource {
  DType dtype;
  const Shape& shape;
  Layout layout;
  const std::byte* data;
  int64_t first = 0;  // index of its first element in the whole
};

/// On how many chunks fingerprint_of works for a tensor of that shape, at most.
size_t fingerprint_chunks(const Shape& shape);

/// The same bits for any number of threads; in another layout, sums may differ in their last
/// digits. REQUIRES: `first` is a multiple of the plane of a 4-D tensor. `chunks`: room for as
/// many, overwritten. Allocates nothing.
Fingerprint fingerprint_of(int threads, const FingerprintSource& source,
                           std::span<Fingerprint> chunks);

}  // namespace flow::cpu
