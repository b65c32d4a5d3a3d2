// Determines which tensors a step reads, when the memory of each tensor is in use, and where it is
// placed in an arena.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Calls visit(id) for each tensor that the step reads: its inputs, then the operands of fused ops.
template <typename Visit>
void visit_operands(const Step& step, const Visit& visit) {
  std::ranges::for_each(step.inputs, visit);
  for (const EpilogueOp& fused : step.epilogue) std::ranges::for_each(fused.operands, visit);
}

/// Sets `first` and `last` of every result from the steps, hooks and returns that read it.
/// A tensor with an alias extends the life of the tensor at the root of its aliases.
void assign_lifetimes(Job& job);

/// Returns the tensors that steps before the loop make and steps of a pass read. They live until
/// the last pass. REQUIRES: the job has a loop.
std::vector<TensorId> read_in_passes(const Job& job);

/// Returns, for each tensor, the tensor whose memory it uses: itself, or the root of its aliases.
/// REQUIRES: aliases form no cycle.
std::vector<TensorId> alias_roots(const Job& job);

/// A block of memory that is in use from step `first` to step `last`, both included.
struct Block {
  size_t bytes = 0;
  size_t first = 0, last = 0;
};

struct Assignment {
  std::vector<size_t> offsets;  // one offset for each block; multiples of 64
  size_t bytes = 0;             // the size of the arena, which is the peak of memory use
};

/// Places blocks so that no two that live at the same time overlap. Tries several orders (by size,
/// by lifetime, by start), places each block best-fit, and keeps the smallest arena.
Assignment assign_memory(const std::vector<Block>& blocks);

}  // namespace flow::plan
