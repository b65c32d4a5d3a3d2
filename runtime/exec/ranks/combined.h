// Which tensors of a job shards and ranks combine.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::exec {

struct Combined {
  plan::TensorId tensor;
  size_t step;  // that makes it
};

/// In the order of steps. Of several in one memory, the first stands for all. `owners`: for each
/// tensor, whose memory it lies in.
std::vector<Combined> list_combined(const plan::Job& job, std::span<const plan::TensorId> owners);

/// Bytes of an element while parts are added up: floats in float32, those of float64 and scalars in
/// float64, others as they are.
size_t total_size(const plan::Tensor& tensor);

}  // namespace flow::exec
