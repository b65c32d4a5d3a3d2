// Class labels of any integer dtype, and the fault that one out of range is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/index_maps.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// What is known of a step's labels before it runs.
struct LabelCheck {
  LabelCheck(const Request& request, const TensorDesc& labels, int64_t classes)
      : where(request.step.where),
        operand(labels.name),
        dtype(labels.dtype),
        rows(labels.shape.elements()),
        limit(classes),
        place(whole_index(labels.shape, labels.batch_axis, request.shards)) {}

  /// Notes the first label outside [0, limit), in row order, unless the call has a fault already.
  /// Its row is that of the whole batch.
  void run(const std::byte* labels, const CallState& state) const {
    for (int64_t row = 0; row < rows && state.fault && !*state.fault; ++row)
      check(integer_at(dtype, labels, row), row, state);
  }
  /// The same of one label.
  void check(int64_t label, int64_t row, const CallState& state) const {
    if ((label >= 0 && label < limit) || !state.fault || *state.fault) return;
    *state.fault = exec::Fault{where, operand, place.at(row, state.shard), label, limit};
  }

  std::string where, operand;
  DType dtype;
  int64_t rows, limit;
  WholeIndex place;
};

/// The kernel with a check before it that the integers in operand i are in [0, limit).
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
