// Which updates the ranks of a run divide: each rank updates a slice of the variable, and only it
// has that slice of the optimizer slots.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// The way of a gradient from its sum over shards to the update of its variable.
struct DividedUpdate {
  plan::TensorId gradient;  // combined over shards
  plan::TensorId variable;
  std::vector<plan::TensorId> slots;
  /// Steps that change the gradient element by element, in order; then the update.
  std::vector<size_t> steps;
};

/// Is it a step that reads gradients as their norm alone? Its kernels take slices of them.
bool reads_norm(const plan::Job& job, const plan::Step& step);

/// Updates that may be divided, in the order of their gradients: of float32 variables whose
/// gradients nothing reads but these steps and norms. Neither gradients nor slots are
/// `deliverables`. `owners`: from share_memory.
std::vector<DividedUpdate> find_divided_updates(const plan::Job& job,
                                                std::span<const plan::TensorId> owners,
                                                std::span<const plan::TensorId> deliverables);

}  // namespace flow::exec
