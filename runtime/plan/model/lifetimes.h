// What a step reads, when each tensor's memory is in use, and where in an arena it may lie.
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

/// What steps before the loop make and those of a pass read: it lives until the last pass.
/// REQUIRES: the job has a loop.
std::vector<TensorId> read_in_passes(const Job& job);

/// For each tensor the one whose memory it lies in: itself, or the root of its aliases.
/// REQUIRES: aliases make no cycle.
std::vector<TensorId> alias_roots(const Job& job);

/// A block of memory in use from step `first` to step `last`, both included.
struct Block {
  size_t bytes = 0;
  size_t first = 0, last = 0;
};

struct Assignment {
  std::vector<size_t> offsets;  // one for each block, multiples of 64
  size_t bytes = 0;             // of the arena: the peak
};

/// Places blocks so that no two that live at the same time overlap. Tries several orders (by size,
/// by lifetime, by start), places each best-fit, and keeps the smallest arena.
Assignment assign_memory(const std::vector<Block>& blocks);

}  // namespace flow::plan
