// Where everything of a call lies: which tensors share memory, offsets, and the account of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Memory of its own kind: variables outlive the call, inputs exist once a slot, the rest is arena;
/// kShared: a variable that lies in another program's memory; kTransferred: a tensor on its way to
/// or from another device, in host memory.
enum class Pool { kNone, kVariables, kInputs, kArena, kShared, kTransferred };

struct Place {
  Pool pool = Pool::kNone;
  /// Bytes, a multiple of MemoryRequest::alignment; of kShared and kTransferred: which one.
  size_t offset = 0;
};

size_t bytes_of(const plan::Tensor& tensor);
/// Of the whole batch where the job has shards: inputs hold it.
size_t whole_bytes_of(const plan::Job& job, const plan::Tensor& tensor);

/// What a prepared program knows of a tensor.
struct TensorInfo {
  DType dtype;
  Shape shape;
  Place place;

  size_t bytes() const { return flow::bytes_of(shape, dtype); }
};

/// REQUIRES: it is a variable, of this program or of another, and has so many bytes.
const TensorInfo& variable_of(std::span<const TensorInfo> tensors, plan::TensorId id, size_t bytes);
/// REQUIRES: the same, and `value` is one of it.
const TensorInfo& variable_of(std::span<const TensorInfo> tensors, plan::TensorId id,
                              const ArrayView& value);

/// A variable that another program has: the first of them that has one of its name.
struct SharedVariable {
  plan::TensorId tensor;
  const Program* program;
  plan::TensorId theirs;
};

/// In the order in which Place::offset counts them.
std::vector<SharedVariable> shared_variables(const plan::Job& job,
                                             std::span<const VariableSource> variable_sources);

/// Would the elements of two tensors of equal size lie in memory in the same order?
using LieAlike = std::function<bool(plan::TensorId, plan::TensorId)>;

/// For each tensor, whose memory it lies in: its own, a variable's that it updates (an order of
/// the plan), or that of the operand it may take over (a permission, used where nothing still
/// reads the operand and both lie alike). `kept` are read until the end of the call.
std::vector<plan::TensorId> share_memory(const plan::Job& job, const LieAlike& lie_alike,
                                         std::span<const plan::TensorId> kept = {});

/// True when the step has nothing to do: a reshape that lies on its operand.
bool is_view(const plan::Step& step, std::span<const plan::TensorId> owners);

/// A variable of which this rank stores only a slice, of this many bytes.
struct VariableSlice {
  plan::TensorId variable;
  size_t bytes;
};

struct MemoryRequest {
  const plan::Job& job;
  std::span<const plan::TensorId> owners;     // from share_memory
  std::span<const size_t> workspaces;         // by step: bytes
  std::span<const plan::TensorId> kept = {};  // as in share_memory
  std::span<const plan::TensorId> constants =
      {};  // kept from call to call; they are in `kept`, too
  std::span<const SharedVariable> shared = {};
  std::span<const TransferredTensor> transferred = {};
  std::span<const VariableSlice> slices = {};  // of variables; of others, all is placed
  size_t alignment = 64;                       // bytes; a multiple of 64
  std::span<const uint8_t> parallel = {};      // by step: runs beside the step before? empty: none
};

struct MemoryPlan {
  std::vector<Place> tensors;      // by tensor
  std::vector<size_t> workspaces;  // by step: offset in the arena
  MemoryReport report;             // outputs are left to the caller; inputs are one slot's
};

/// A result that has memory of its own, and the steps between which it is in use.
struct Holding {
  plan::TensorId tensor;
  plan::Block block;
};

/// In the order of the job's tensors.
std::vector<Holding> list_holdings(const plan::Job& job, std::span<const plan::TensorId> owners,
                                   std::span<const plan::TensorId> kept = {});

/// Bytes of the blocks that live at each of `steps` steps.
std::vector<size_t> live_bytes(std::span<const plan::Block> blocks, size_t steps);

MemoryPlan plan_memory(const MemoryRequest& request);

/// RunError where a tensor cannot fit alone, before its size is multiplied with anything.
/// `kind`: "memory", "GPU memory".
void check_tensors_fit(const plan::Job& job, size_t available, std::string_view kind);

/// RunError that names the largest where all of it, `needed` bytes, does not fit.
void check_memory_fits(const plan::Job& job, size_t needed, const MemoryReport& report,
                       size_t available, std::string_view kind);

}  // namespace flow::exec
