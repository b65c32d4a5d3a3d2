// What kernels of `sample` read of their step.
#pragma once

#include <string>

#include "runtime/base/index_maps.h"
#include "runtime/base/sampling.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

struct SampleSizes {
  int64_t rows, tokens;
  bool position_of_row;  // each row has its own
  DType position;
  WholeIndex place;    // of a shard's row
  int64_t whole_rows;  // of the whole batch
};

inline SampleSizes sample_sizes(const Request& request) {
  const Shape& logits = request.inputs[0].shape;
  const TensorDesc& out = request.outputs[0];
  const int64_t rows = out.shape.elements();
  const bool has_position = request.inputs.size() > 1;
  return {rows,
          logits[logits.rank() - 1],
          has_position && request.inputs[1].shape.rank() > 0,
          has_position ? request.inputs[1].dtype : DType::kInt32,
          whole_index(out.shape, out.batch_axis, request.shards),
          rows * (out.batch_axis >= 0 ? request.shards : 1)};
}

inline Sampling sampling_of(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  return {attributes.get<double>("temperature"), attributes.get<double>("top_p"),
          attributes.get<int64_t>("top_k"),
          philox_key(request.seed, attributes.get<std::string>("consumer")),
          attributes.has("by_pass")};
}

/// A number in [0, all) for row `row` of this call.
inline uint64_t draw_of_row(const SampleSizes& sizes, const Sampling& sampling,
                            const Buffers& buffers, const CallState& state, int64_t row,
                            uint64_t all) {
  const int64_t position =
      integer_at(sizes.position, buffers.inputs[1], sizes.position_of_row ? row : 0);
  const int64_t number = state.step * sizes.whole_rows + sizes.place.at(row, state.shard);
  return draw_weight(sampling, position, static_cast<uint64_t>(number), state.pass, all);
}

}  // namespace flow::cpu
