// The updates that the ranks of a run divide: each rank updates a slice of a variable, and only
// that rank stores the slice of the optimizer slots. Determines the slices of this rank and the
// steps that work only on slices.
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

/// The path of a gradient from its sum over shards to the update of its variable.
struct DividedUpdate {
  plan::TensorId gradient;  // the gradient that is combined over shards
  plan::TensorId variable;
  std::vector<plan::TensorId> slots;
  /// The steps that change the gradient element by element, in order; the update is last.
  std::vector<size_t> steps;
};

/// Returns true if the step reads gradients only to compute their norm. Its kernels accept slices
/// of gradients.
bool reads_norm(const plan::Job& job, const plan::Step& step);

/// Returns the updates that may be divided, in the order of their gradients. They update float32
/// variables whose gradients are read only by these steps and by norms. Neither gradients nor slots
/// are `deliverables`. `owners` is the result of share_memory.
std::vector<DividedUpdate> find_divided_updates(const plan::Job& job,
                                                std::span<const plan::TensorId> owners,
                                                std::span<const plan::TensorId> deliverables);

/// An update of which this rank computes elements [first, end).
struct SlicedUpdate {
  DividedUpdate update;
  size_t entry;                      // the index of the gradient among the combined tensors
  std::vector<int64_t> bounds = {};  // the offset of each rank's slice, then the last slice's end
  int64_t first = 0, end = 0;

  int64_t elements() const { return end - first; }
  size_t step() const { return update.steps.back(); }
};

/// Returns the updates that may be divided. `entries` are the combined tensors; each represents all
/// tensors in its memory. `owners` and `deliverables` are the same as for find_divided_updates.
std::vector<SlicedUpdate> find_sliced_updates(const plan::Job& job,
                                              std::span<const plan::TensorId> owners,
                                              std::span<const plan::TensorId> deliverables,
                                              std::span<const plan::TensorId> entries);

/// The part of a float32 tensor that a step works on.
struct TensorSlice {
  std::span<const int64_t> bounds;  // same as in SlicedUpdate; empty for the whole tensor
  int64_t elements = 0;
  size_t offset = 0;  // bytes in the tensor's memory; 0 if only the slice has memory
};

class Division {
 public:
  Division() = default;
  /// Divides the updates whose gradients are in divided buckets. `rank` is this rank.
  Division(const plan::Job& job, std::vector<SlicedUpdate> updates, std::span<const Bucket> buckets,
           int rank);

  std::span<const SlicedUpdate> updates() const { return updates_; }
  TensorSlice slice(size_t step, plan::TensorId tensor) const;
  /// Returns the slice of an optimizer slot, which is the same in all steps. Other variables are
  /// whole.
  TensorSlice slot(plan::TensorId variable) const;
  /// The optimizer slots of which this rank has a slice.
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
  std::map<std::pair<size_t, plan::TensorId>, Use> uses_;  // indexed by step and tensor
};

/// Returns the part of a tensor whose fingerprint this rank takes: its slice if the ranks divide
/// the tensor; otherwise rank 0 takes the whole tensor.
FingerprintPlan::Part part_of_rank(const TensorSlice& slice, int64_t elements, int rank);

}  // namespace flow::exec
