// The check of class labels of any integer dtype, and the fault that reports a label out of range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/index_maps.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// The facts about a step's labels that are available before the step runs.
struct LabelCheck {
  LabelCheck(const Request& request, const TensorDesc& labels, int64_t classes)
      : where(request.step.where),
        operand(labels.name),
        dtype(labels.dtype),
        rows(labels.shape.elements()),
        limit(classes),
        place(whole_index(labels.shape, labels.batch_axis, request.shards)) {}

  /// Records the first label outside [0, limit) in row order, unless the call already has a fault.
  /// The fault names the row in the whole batch.
  void run(const std::byte* labels, const CallState& state) const {
    for (int64_t row = 0; row < rows && state.fault && !*state.fault; ++row)
      check(integer_at(dtype, labels, row), row, state);
  }
  /// Records a label outside [0, limit), unless the call already has a fault.
  void check(int64_t label, int64_t row, const CallState& state) const {
    if ((label >= 0 && label < limit) || !state.fault || *state.fault) return;
    *state.fault = exec::Fault{where, operand, place.at(row, state.shard), label, limit};
  }

  std::string where, operand;
  DType dtype;
  int64_t rows, limit;
  WholeIndex place;
};

/// Returns the kernel with a preceding check that the integers in operand i are in [0, limit).
inline Kernel checked(const Request& request, size_t i, int64_t limit, Kernel kernel) {
  kernel.launch = [i, check = LabelCheck(request, request.inputs[i], limit),
                   launch = std::move(kernel.launch)](const Buffers& buffers,
                                                      const CallState& state) {
    check.run(buffers.inputs[i], state);
    launch(buffers, state);
  };
  return kernel;
}

}  // namespace flow::cpu
