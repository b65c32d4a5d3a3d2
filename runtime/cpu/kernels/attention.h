// What the attention kernels of the CPU know of a call: its extents, and which keys a query sees.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// `batches` times: a query [queries, depth] over a key [keys, depth] and a value
/// [keys, value_depth].
struct Attention {
  int64_t batches = 0, queries = 0, keys = 0, depth = 0, value_depth = 0;
  double scale = 1;
  bool causal = false;

  /// Of `request`, whose operands `query` and the two after it are the query, key and value;
  /// operand `mask` is the mask, where there are as many.
  Attention(const Request& request, size_t query, size_t mask);

  /// How many keys the queries before `end` may see: with `causal` none after their own place.
  int64_t seen_keys(int64_t end) const { return causal && end < keys ? end : keys; }

  bool has_mask() const { return !mask_offsets_.empty(); }
  size_t mask_operand() const { return mask_operand_; }
  /// Of query i of a batch over its keys: the element of the mask for the first one, and the
  /// distance to the next one's.
  int64_t mask_row(int64_t batch, int64_t query) const {
    return mask_offsets_[static_cast<size_t>(batch)] + query * mask_query_step_;
  }
  int64_t mask_key_step() const { return mask_key_step_; }

 private:
  void describe_mask(const Shape& mask, const Shape& query);

  size_t mask_operand_ = 0;
  std::vector<int64_t> mask_offsets_;  // for each batch
  int64_t mask_query_step_ = 0, mask_key_step_ = 0;
};

}  // namespace flow::cpu
