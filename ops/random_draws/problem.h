// The random words that a step draws: functions of (seed, entry, step, element) that are the same
// on every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/index_maps.h"
#include "runtime/base/philox.h"
#include "runtime/base/random_values.h"

namespace flow::ops {

/// The Philox words of the elements of a step's first result. A shard uses the words of its part of
/// the whole batch.
struct WordSource {
  static constexpr int kBlock = 4;  // words in a block, one for each element

  PhiloxKey key;
  WholeIndex place;

  /// Returns the block of element `at` of the whole batch.
  template <typename Call>
  FLOW_HOST_DEVICE PhiloxBlock block(int64_t at, const Call& call) const {
    return philox_block(key, static_cast<uint32_t>(call.step), static_cast<uint64_t>(at / kBlock),
                        static_cast<uint32_t>(call.pass));
  }
  /// Returns true if every aligned group of four elements of this shard is one block of the whole
  /// batch.
  bool keeps_blocks() const { return place.per_shard == 0 || place.run % kBlock == 0; }
};

/// Returns the source of the words that are drawn under the name in the attribute `consumer`.
template <typename Request>
WordSource word_source(const Request& request) {
  const auto& out = request.outputs[0];
  return {philox_key(request.seed, request.step.attributes.template get<std::string>("consumer")),
          whole_index(out.shape, out.batch_axis, request.shards)};
}

/// The sizes of weights (rows, classes), each row of which is summed in `pieces` pieces, and of
/// indices (rows, samples).
struct WeightRows {
  int64_t rows, classes, pieces, samples;

  WeightRows(const Shape& weights, const Shape& indices)
      : rows(weights.elements(0, weights.rank() - 1)),
        classes(weights[weights.rank() - 1]),
        pieces(ceil_div(classes, kWeightsOfPiece)),
        samples(indices.elements() / rows) {}

  /// Returns the bytes that the sums need.
  size_t workspace() const { return static_cast<size_t>(rows * pieces) * sizeof(double); }
};

}  // namespace flow::ops
