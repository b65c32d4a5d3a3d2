// Which updates the ranks of a run divide: each rank updates a slice of the variable, and only it
// has that slice of the optimizer slots. Which slices this rank has, and which steps work on slices
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "runtime/exec/core/fingerprints.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/ranks/buckets.h"
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

/// An update of which this rank does elements [first, end).
struct SlicedUpdate {
  DividedUpdate update;
  size_t entry;                      // of the gradient, among the tensors that are combined
  std::vector<int64_t> bounds = {};  // by rank: where its slice begins; then where the last one
                                     // ends
  int64_t first = 0, end = 0;

  int64_t elements() const { return end - first; }
  size_t step() const { return update.steps.back(); }
};

/// The updates that may be divided. `entries`: the tensors that are combined; one stands for all
/// that lie in its memory. `owners`, `deliverables`: as of find_divided_updates.
std::vector<SlicedUpdate> find_sliced_updates(const plan::Job& job,
                                              std::span<const plan::TensorId> owners,
                                              std::span<const plan::TensorId> deliverables,
                                              std::span<const plan::TensorId> entries);

/// What a step works on of a tensor, float32.
struct TensorSlice {
  std::span<const int64_t> bounds;  // as of SlicedUpdate; empty: all of the tensor
  int64_t elements = 0;
  size_t offset = 0;  // in the tensor's memory, bytes; 0 where only the slice has memory
};

class Division {
 public:
  Division() = default;
  /// Divides those updates whose gradients are in divided buckets. `rank`: this one.
  Division(const plan::Job& job, std::vector<SlicedUpdate> updates, std::span<const Bucket> buckets,
           int rank);

  std::span<const SlicedUpdate> updates() const { return updates_; }
  TensorSlice slice(size_t step, plan::TensorId tensor) const;
  /// Of an optimizer slot, whatever step; all of another variable.
  TensorSlice slot(plan::TensorId variable) const;
  /// Optimizer slots of which this rank has a slice.
  std::vector<VariableSlice> slots() const;

 private:
  struct Use {
    size_t update;
    bool is_slot;
  };
  void cut(std::span<const Bucket> buckets, size_t rank);
  void add_steps(const plan::Job& job, size_t update);
  void add_norms(const plan::Job& job);

  std::vector<SlicedUpdate> updates_;
  std::map<std::pair<size_t, plan::TensorId>, Use> uses_;  // by step and tensor
};

/// Of a tensor of which all ranks have all or each has a slice: what all have is rank 0's.
FingerprintPlan::Part part_of_rank(const TensorSlice& slice, int64_t elements, int rank);

}  // namespace flow::exec
