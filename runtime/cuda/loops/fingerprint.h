// Fingerprints of tensors in device memory: those of the CPU, but for the last digits of sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/fingerprint.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// A tensor, or the part of it that a shard or a rank has.
struct FingerprintSource {
  DType dtype;                 // in memory
  DType shown;                 // that of the plan, to which elements are widened; else the same
  Shape shape;                 // as the plan says; of 4-D ones, the last two axes are the whole's
  bool channels_last = false;  // [N, H, W, C] in memory; all of the shape is there then
  const std::byte* data = nullptr;
  int64_t elements = 0;  // at `data`
  /// Index of the first one in the whole, for the first part that is taken. Others follow.
  int64_t first = 0;
};

/// Bytes that take_fingerprint needs, whatever the tensor.
size_t fingerprint_workspace();

/// `made` becomes `count` fingerprints of nothing.
void clear_fingerprints(Fingerprint* made, int64_t count, const LaunchState& state);

/// Adds that of `source` to `made`, behind the elements that it counts already. The same bits in
/// every run. REQUIRES: there are elements; `workspace` is nobody else's meanwhile.
void take_fingerprint(const FingerprintSource& source, Fingerprint* made, std::byte* workspace,
                      const LaunchState& state);

}  // namespace flow::cuda
