// Rotary position embeddings: by how much they turn pairs of features, and what kernels read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/attributes.h"

namespace flow::ops {

/// Radians per position of each pair, of a call of `rope` with normalized attributes.
std::vector<double> rope_frequencies(const Attributes& attributes);

/// Does pair i have features i and i + pairs? Else it has 2 i and 2 i + 1.
bool rope_splits_halves(const Attributes& attributes);

/// x and y are (..., length, depth), of whose features the first 2 pairs turn.
struct Rope {
  int64_t rows, length, depth, pairs;
  int64_t rows_of_positions;  // that share a vector of positions
  bool halves;
  std::optional<DType> positions;  // of the operand; else 0, 1, ...
};

template <typename Request>
Rope rope_of(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const Attributes& attributes = request.step.attributes;
  const int64_t depth = x[x.rank() - 1], rows = x.elements() / depth;
  Rope rope{rows,  x[x.rank() - 2],
            depth, attributes.get<int64_t>("dims") / 2,
            rows,  rope_splits_halves(attributes),
            {}};
  if (request.inputs.size() < 2) return rope;
  rope.positions = request.inputs[1].dtype;
  // Of (N, T) each N has its own.
  if (request.inputs[1].shape.rank() == 2) rope.rows_of_positions = rows / x[0];
  return rope;
}

}  // namespace flow::ops
