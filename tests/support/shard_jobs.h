// Small jobs whose batch is cut into shards, made by hand.
#pragma once

#include <string>
#include <vector>

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

/// Labels of 3 classes, two for each of 4 shards, whose loss is computed.
plan::Job labelling();

/// A sum over shards that a probe makes.
plan::Job probing();

}  // namespace flow::test
