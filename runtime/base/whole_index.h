// Where the elements of a shard lie in the whole batch.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/base/shape.h"

namespace flow {

/// A shard's tensor consists of runs of elements that are adjacent in the whole batch, too.
struct WholeIndex {
  int64_t run;        // elements
  int64_t distance;   // from the start of one run to that of the next, in the whole batch
  int64_t per_shard;  // from the start of a shard to that of the next; 0: all shards have the same

  /// The index in the whole batch of an element of a shard.
  FLOW_HOST_DEVICE int64_t at(int64_t element, int64_t shard) const {
    return element / run * distance + shard * per_shard + element % run;
  }
};

/// `shape`: of a shard. REQUIRES: it has elements.
inline WholeIndex whole_index(const Shape& shape, int batch_axis, int64_t shards) {
  if (batch_axis < 0 || shards == 1) return {shape.elements(), shape.elements(), 0};
  const int64_t run = shape.elements(batch_axis, shape.rank());
  return {run, run * shards, run};
}

}  // namespace flow
