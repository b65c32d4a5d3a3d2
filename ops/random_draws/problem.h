// Which random words a step draws, the same on every device: functions of (seed, entry, step,
// element).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/index_maps.h"
#include "runtime/base/philox.h"
#include "runtime/base/random_values.h"

namespace flow::ops {

/// The Philox words of the elements of a step's first result, which are those of the whole batch.
struct WordSource {
  static constexpr int kBlock = 4;  // words, of as many elements

  PhiloxKey key;
  WholeIndex place;

  /// The block of element `at` of the whole batch.
  template <typename Call>
  FLOW_HOST_DEVICE PhiloxBlock block(int64_t at, const Call& call) const {
    return philox_block(key, static_cast<uint32_t>(call.step), static_cast<uint64_t>(at / kBlock),
                        static_cast<uint32_t>(call.pass));
  }
  /// Are four elements that lie together here one block of the whole batch?
  bool keeps_blocks() const { return place.per_shard == 0 || place.run % kBlock == 0; }
};

/// Drawn under the name in the attribute `consumer`.
template <typename Request>
WordSource word_source(const Request& request) {
  const auto& out = request.outputs[0];
  return {philox_key(request.seed, request.step.attributes.template get<std::string>("consumer")),
          whole_index(out.shape, out.batch_axis, request.shards)};
}

/// Weights (rows, classes), which are summed in so many pieces a row; indices (rows, samples).
struct WeightRows {
  int64_t rows, classes, pieces, samples;

  WeightRows(const Shape& weights, const Shape& indices)
      : rows(weights.elements(0, weights.rank() - 1)),
        classes(weights[weights.rank() - 1]),
        pieces(ceil_div(classes, kWeightsOfPiece)),
        samples(indices.elements() / rows) {}

  /// Bytes, for the sums.
  size_t workspace() const { return static_cast<size_t>(rows * pieces) * sizeof(double); }
};

}  // namespace flow::ops
