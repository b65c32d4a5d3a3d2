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

/// A tensor, or the part of it that a shard or a rank has.
struct FingerprintSource {
  DType dtype;
  const Shape& shape;  // of 4-D ones, the last two axes are those of the whole
  Layout layout;
  const std::byte* data;
  int64_t elements;   // at `data`
  int64_t first = 0;  // index of the first one in the whole
};

/// On how many chunks fingerprint_of works for a tensor of that shape, at most.
size_t fingerprint_chunks(const Shape& shape);

/// The same bits for any number of threads; in another layout, sums may differ in their last
/// digits. REQUIRES: of channels-last tensors, all elements of the shape are there, and `first` is
/// a multiple of the plane. `chunks`: room for as many, overwritten. Allocates nothing.
Fingerprint fingerprint_of(int threads, const FingerprintSource& source,
                           std::span<Fingerprint> chunks);

}  // namespace flow::cpu
