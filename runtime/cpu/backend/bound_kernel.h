// A plan step that is ready to launch: its kernel, the reorders around it, the epilogue ops that
// run separately, and the number of threads that is worthwhile.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/exec/ranks/division.h"
#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// An operand or result of an action: a tensor of the job, a place in its kernel's workspace, or
/// nothing (a second result that no step reads).
struct Operand {
  enum class Kind { kNothing, kTensor, kWorkspace };
  Kind kind = Kind::kNothing;
  plan::TensorId tensor;
  size_t offset = 0;  // bytes, in the tensor or the workspace
};

/// One launch with its operands.
struct Action {
  Launch launch;
  std::vector<Operand> inputs, outputs;
  std::vector<std::vector<Operand>> epilogue;
  size_t workspace = 0;  // the offset in the kernel's workspace
};

struct BoundKernel {
  std::vector<Action> actions;  // run in this order; empty if the result uses its operand's memory
  size_t workspace = 0;         // bytes, for all actions
  size_t gathered = 0;          // bytes that a call gathers from all ranks
  std::string kernel;           // the choice, such as "oneDNN jit:avx512_core, reorder; 2 threads"
};

/// The data about the job that preparing a step needs.
struct BindContext {
  const plan::Job& job;
  std::span<const Layout> layouts;         // indexed by tensor
  std::span<const plan::TensorId> owners;  // indexed by tensor: the tensor whose memory it uses
  std::span<const KernelEntry> kernels;    // the only table to choose from, or empty
  int threads = 1;
  const exec::Division& division;
  exec::Collectives* ranks = nullptr;  // the ranks among which work is divided
};

/// Returns the kernel of each step: from `kernels` if that is not empty; otherwise, for float64
/// operands, the kernel for doubles, or the reference kernel if there is none, and for all other
/// operands the fast kernel. Throws RunError with the step's line if a step has no kernel.
std::vector<const KernelEntry*> choose_kernels(const plan::Job& job,
                                               std::span<const KernelEntry> kernels);

/// Prepares a step of the context's job. Throws RunError, with the job-file line and the step's
/// name, if the step cannot run on this CPU.
BoundKernel bind_kernel(const BindContext& context, const plan::Step& step);

/// Returns the number of threads for a whole call, at most 256: `requested` if it is set, otherwise
/// the number of usable cores, or one if the call is too short to share.
int choose_threads(const plan::Job& job, int requested);

/// Returns the number of threads for one step of a call, because waking the other threads takes
/// about a microsecond.
int choose_threads(const plan::Job& job, const plan::Step& step, int threads);

}  // namespace flow::cpu
