// Rotary position embeddings: the angles by which they rotate pairs of features, and the sizes that
// kernels read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/attributes.h"

namespace flow::ops {

/// Returns the radians per position of each pair, for a call of `rope` with normalized attributes.
std::vector<double> rope_frequencies(const Attributes& attributes);

/// Returns true if pair i consists of features i and i + pairs, and false if it consists of 2 i and
/// 2 i + 1.
bool rope_splits_halves(const Attributes& attributes);

/// x and y are (..., length, depth), and the first 2 * pairs features are rotated.
struct Rope {
  int64_t rows, length, depth, pairs;
  int64_t rows_of_positions;  // rows that share a vector of positions
  bool halves;
  std::optional<DType> positions;  // the dtype of the operand; without it, positions are 0, 1, ...
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
  // If positions are (N, T), each index of N has a separate vector of positions.
  if (request.inputs[1].shape.rank() == 2) rope.rows_of_positions = rows / x[0];
  return rope;
}

}  // namespace flow::ops
