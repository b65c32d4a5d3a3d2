// Bags of indices along the last axis of an array.
#pragma once

#include "ops/core/cpu_labels.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// params [rows, units], indices [bags, count], out [bags, units].
struct BagSizes {
  explicit BagSizes(const Request& request)
      : rows(request.inputs[0].shape[0]),
        units(request.inputs[0].shape[1]),
        count(request.inputs[1].shape[request.inputs[1].shape.rank() - 1]),
        bags(request.inputs[1].shape.elements() / count) {}

  int64_t rows, units, count, bags;
};

/// bag_indices: -1 in place of what does not count. What does, and the lengths, are in range.
class BagMarks {
 public:
  explicit BagMarks(const Request& request);
  void run(const Buffers& buffers, const CallState& state) const;

 private:
  LabelCheck indices_;
  std::optional<LabelCheck> lengths_;
  std::optional<int64_t> padding_;
  int64_t count_;  // of indices in a bag
};

}  // namespace flow::cpu
