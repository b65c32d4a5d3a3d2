// Rows of adjacent features, in chunks that depend on the shape alone, and sums over rows: a
// chunk's in float32, those of all chunks in order in float64.
#pragma once

#include <cstdint>

#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// [rows, features]
struct FeatureRows {
  /// Operand 0, whose features begin at the step's attribute `axis`.
  explicit FeatureRows(const Request& request);

  int64_t chunks() const { return ceil_div(rows, chunk); }
  int64_t elements_of_parts() const { return chunks() * features; }

  /// Calls body(first, end) for each chunk of rows.
  template <typename Body>
  void for_chunks(int threads, Body body) const {
    for_pieces(threads, rows, chunk, body);
  }

  /// out[i] = the sum of parts[k, i] over the chunks k.
  void add_parts(int threads, const float* parts, float* out) const;

  int64_t rows, features, chunk;
};

}  // namespace flow::cpu
