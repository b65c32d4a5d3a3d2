// Small jobs whose batch is cut into shards, and what tests of several backends ask of them.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::test {

/// A layer without bias, its loss (the mean of squares) and an update of its weight.
plan::Job layer_training(int64_t batch, int64_t in, int64_t out, int64_t shards, DType dtype);

/// Ones, dropped at random. `axis`: of the batch.
plan::Job dropping(Shape shape, int axis, int64_t shards, DType dtype);

/// One tensor of each kind: split along axes 0 and 1, combined, the same on all shards, a view of
/// an input, and one that a step behind the shards makes.
plan::Job delivering(int64_t shards);

/// The tensors of `delivering`.
extern const std::vector<std::string> kDelivered;

/// Fills the two input slots of a program of `delivering(4)` with whole batches, calls it on each,
/// with an output slot for each, and checks what it delivers of `split`, its only deliverable.
void require_whole_batches(exec::Program& program, const plan::Job& job);

/// The bytes that the holder of that name has in the arena at its peak; 0 where it has none.
size_t bytes_at_peak(const exec::MemoryReport& report, const std::string& holder);

/// Labels of 3 classes, two for each of 4 shards, whose loss is computed.
plan::Job labeling();

/// A sum over shards that a probe makes.
plan::Job probing();

struct TrainingSizes {
  int64_t shards, rows, columns;  // of the input
  int64_t wide, deep;             // units of layers
};

/// A job file with gradients of several buckets and slices, small ones, statistics, a mean, a
/// tensor whose rows lie on its second axis, and an update that looks at whole variables.
std::string training_on_ranks(const TrainingSizes& sizes);

/// What the job returns and watches, and its variables.
std::vector<std::string> tensors_to_compare(const plan::Job& job);

}  // namespace flow::test
