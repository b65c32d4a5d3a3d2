// Where everything of a call lies: which tensors share memory, offsets, and the account of it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/exec/backend.h"

namespace flow::cpu {

/// Memory of its own kind: variables outlive the call, inputs exist once a slot, the rest is arena.
enum class Pool { kNone, kVariables, kInputs, kArena };

struct Place {
  Pool pool = Pool::kNone;
  size_t offset = 0;  // bytes, a multiple of 64
};

/// For each tensor, whose memory it lies in: its own, a variable's that it updates (an order of
/// the plan), or that of the operand it may take over (a permission, used where nothing still
/// reads the operand). Layouts that differ never share.
std::vector<plan::TensorId> share_memory(const plan::Job& job, std::span<const Layout> layouts);

/// True when the step has nothing to do: a reshape that lies on its operand.
bool is_view(const plan::Step& step, std::span<const plan::TensorId> owners);

struct MemoryPlan {
  std::vector<Place> tensors;      // by tensor
  std::vector<size_t> workspaces;  // by step: offset in the arena
  exec::MemoryReport report;       // outputs are left to the caller; inputs are one slot's
};

/// Places tensors, and a workspace of `workspaces[i]` bytes for each step i.
MemoryPlan plan_memory(const plan::Job& job, std::span<const plan::TensorId> owners,
                       std::span<const size_t> workspaces);

}  // namespace flow::cpu
