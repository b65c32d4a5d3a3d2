// Fingerprints of tensors in device memory. They equal the CPU's except for the last digits of
// sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/fingerprint.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A tensor, or the part of it that belongs to a shard or a rank.
struct FingerprintSource {
  DType dtype;  // the dtype in memory
  DType shown;  // the plan's dtype, to which elements are widened, or the same dtype
  // The shape in the plan. The last two axes of a 4-D tensor are those of the whole tensor.
  Shape shape;
  bool channels_last = false;  // true for [N, H, W, C] in memory; the whole shape is then present
  const std::byte* data = nullptr;
  int64_t elements = 0;  // the elements at `data`
  /// The index of the first element in the whole tensor, for the first part that is taken. Further
  /// parts follow it.
  int64_t first = 0;
};

/// Returns the bytes that take_fingerprint needs for any tensor.
size_t fingerprint_workspace();

/// Sets `made` to `count` fingerprints of no elements.
void clear_fingerprints(Fingerprint* made, int64_t count, const LaunchState& state);

/// Adds the fingerprint of `source` to `made`, after the elements that it already counts. Results
/// are bit-identical in every run. REQUIRES: There are elements; nothing else uses `workspace`
/// meanwhile.
void take_fingerprint(const FingerprintSource& source, Fingerprint* made, std::byte* workspace,
                      const LaunchState& state);

}  // namespace flow::cuda
