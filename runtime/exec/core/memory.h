// Plans the memory of a call: which tensors share memory, the offset of each, and a report of the
// sizes.
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

/// The kind of memory that stores a tensor: variables outlive the call, inputs exist once for each
/// slot, and the rest is in the arena. kShared: a variable in the memory of another program.
/// kTransferred: a tensor in host memory on its way to or from another device.
enum class Pool { kNone, kVariables, kInputs, kArena, kShared, kTransferred };

struct Place {
  Pool pool = Pool::kNone;
  /// For kShared and kTransferred, the index in the list of these tensors; otherwise bytes, a
  /// multiple of MemoryRequest::alignment.
  size_t offset = 0;
};

size_t bytes_of(const plan::Tensor& tensor);
/// The bytes of the tensor for the whole batch, even if the job has shards. Inputs need this size.
size_t whole_bytes_of(const plan::Job& job, const plan::Tensor& tensor);

/// The properties of a tensor that a prepared program stores.
struct TensorInfo {
  DType dtype;
  Shape shape;
  Place place;

  size_t bytes() const { return flow::bytes_of(shape, dtype); }
};

/// Returns the variable's properties. REQUIRES: `id` is a variable of this or of another program,
/// and has `bytes` bytes.
const TensorInfo& variable_of(std::span<const TensorInfo> tensors, plan::TensorId id, size_t bytes);
/// Returns the variable's properties. REQUIRES: as above, and `value` has the variable's dtype and
/// shape.
const TensorInfo& variable_of(std::span<const TensorInfo> tensors, plan::TensorId id,
                              const ArrayView& value);

/// A variable that belongs to another program: the first source that has a variable of the same
/// name.
struct SharedVariable {
  plan::TensorId tensor;
  const Program* program;
  plan::TensorId theirs;
};

/// Returns the shared variables in the order in which Place::offset counts them.
std::vector<SharedVariable> shared_variables(const plan::Job& job,
                                             std::span<const VariableSource> variable_sources);

/// Returns true if the elements of two tensors of equal size would have the same order in memory.
using LieAlike = std::function<bool(plan::TensorId, plan::TensorId)>;

/// Returns for each tensor the owner of its memory. The owner is the tensor itself; or the variable
/// that it updates, which the plan demands; or the operand whose memory it may reuse, which the
/// plan permits and which is done if no later step reads the operand and both have the same layout.
/// The `kept` tensors are read until the end of the call.
std::vector<plan::TensorId> share_memory(const plan::Job& job, const LieAlike& lie_alike,
                                         std::span<const plan::TensorId> kept = {});

/// Returns true if the step does nothing because it is a reshape that shares the memory of its
/// operand.
bool is_view(const plan::Step& step, std::span<const plan::TensorId> owners);

/// A variable of which this rank stores only a slice of this many bytes.
struct VariableSlice {
  plan::TensorId variable;
  size_t bytes;
};

struct MemoryRequest {
  const plan::Job& job;
  std::span<const plan::TensorId> owners;     // the result of share_memory
  std::span<const size_t> workspaces;         // bytes, indexed by step
  std::span<const plan::TensorId> kept = {};  // the same tensors as in share_memory
  std::span<const plan::TensorId> constants =
      {};  // tensors that keep their values from call to call; `kept` contains them, too
  std::span<const SharedVariable> shared = {};
  std::span<const TransferredTensor> transferred = {};
  std::span<const VariableSlice> slices = {};  // variables that are not listed are placed whole
  size_t alignment = 64;                       // bytes; a multiple of 64
  /// Indexed by step: 1 if the step runs in parallel with the step before it. Empty if none does.
  std::span<const uint8_t> parallel = {};
};

struct MemoryPlan {
  std::vector<Place> tensors;      // indexed by tensor
  std::vector<size_t> workspaces;  // offsets in the arena, indexed by step
  MemoryReport report;             // callers add the outputs; the inputs are those of one slot
};

/// A result that has its own memory, and the steps between which this memory is in use.
struct Holding {
  plan::TensorId tensor;
  plan::Block block;
};

/// Lists the results in the order of the job's tensors.
std::vector<Holding> list_holdings(const plan::Job& job, std::span<const plan::TensorId> owners,
                                   std::span<const plan::TensorId> kept = {});

/// Returns for each of `steps` steps the bytes of the blocks that are in use.
std::vector<size_t> live_bytes(std::span<const plan::Block> blocks, size_t steps);

MemoryPlan plan_memory(const MemoryRequest& request);

/// Throws RunError if a single tensor does not fit, before its size is multiplied by anything.
/// `kind` names the memory: "memory", "GPU memory".
void check_tensors_fit(const plan::Job& job, size_t available, std::string_view kind);

/// Throws RunError that names the largest tensors if the whole program, `needed` bytes, does not
/// fit.
void check_memory_fits(const plan::Job& job, size_t needed, const MemoryReport& report,
                       size_t available, std::string_view kind);

}  // namespace flow::exec
