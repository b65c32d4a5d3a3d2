// What the attention kernels of the CPU know of a call: its extents, which keys a query sees, and
// what is added to its scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/cpu_labels.h"
#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// An operand that broadcasts to the scores [..., queries, keys].
struct ScoreOperand {
  /// Of an operand of that shape, for a query of the other.
  ScoreOperand(size_t at, const Shape& shape, const Shape& query, int64_t keys);

  /// Of query i of a batch over its keys: the element for the first one.
  int64_t row(int64_t batch, int64_t query) const {
    return offsets[static_cast<size_t>(batch)] + query * query_step;
  }

  size_t operand;
  int64_t elements, rows, columns;  // of the operand; rows and columns of each of its batches
  std::vector<int64_t> offsets;     // for each batch
  int64_t query_step, key_step;
};

/// Keys [first, end).
struct KeyRange {
  int64_t first, end;
};

/// `batches` times: a query [queries, depth] over a key [keys, depth] and a value
/// [keys, value_depth], which `group` batches next to each other share.
struct Attention {
  int64_t batches = 0, group = 1, queries = 0, keys = 0, depth = 0, value_depth = 0;
  double scale = 1;
  bool causal = false;
  int64_t window = 0;    // 0: none
  int64_t diagonal = 0;  // query i of a causal call sees keys up to i + diagonal
  std::optional<ScoreOperand> mask, bias;

  /// Of a call of attention, or of its gradients.
  Attention(const Request& request, bool gradients);

  int64_t key_batches() const { return batches / group; }

  /// Reports lengths out of range.
  void check(const Buffers& buffers, const CallState& state) const {
    if (lengths_) lengths_->run(buffers.inputs[lengths_operand_], state);
  }

  /// The keys that some of the queries [first, end) of a batch may see.
  KeyRange seen_keys(const Buffers& buffers, int64_t batch, int64_t first, int64_t end) const {
    KeyRange seen{window > 0 ? std::max<int64_t>(0, first + diagonal - window + 1) : 0,
                  length(buffers, batch)};
    if (causal) seen.end = std::clamp<int64_t>(end + diagonal, 0, seen.end);
    seen.first = std::min(seen.first, seen.end);
    return seen;
  }

 private:
  /// The keys of a batch.
  int64_t length(const Buffers& buffers, int64_t batch) const {
    if (!lengths_) return keys;
    const int64_t own = integer_at(lengths_->dtype, buffers.inputs[lengths_operand_],
                                   batch / (batches / lengths_->rows));
    return std::clamp<int64_t>(own, 0, keys);
  }

  size_t lengths_operand_ = 0;
  std::optional<LabelCheck> lengths_;
};

}  // namespace flow::cpu
