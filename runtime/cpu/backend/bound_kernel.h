// One plan step made ready to launch: its kernel, the reorders around it, the epilogue ops it does
// apart, and how many threads pay.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/exec/ranks/division.h"
#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// What an action reads or writes: a tensor of the job, or a place in its kernel's workspace, or
/// nothing (a second result that nobody reads).
struct Operand {
  enum class Kind { kNothing, kTensor, kWorkspace };
  Kind kind = Kind::kNothing;
  plan::TensorId tensor;
  size_t offset = 0;  // in the tensor or the workspace, bytes
};

/// One launch with its operands.
struct Action {
  Launch launch;
  std::vector<Operand> inputs, outputs;
  std::vector<std::vector<Operand>> epilogue;
  size_t workspace = 0;  // offset in the kernel's
};

struct BoundKernel {
  std::vector<Action> actions;  // in order; empty where the result is its operand's memory
  size_t workspace = 0;         // bytes, of all actions
  size_t gathered = 0;          // bytes that come together from all ranks in a call
  std::string kernel;           // what was chosen: "oneDNN jit:avx512_core, reorder; 2 threads"
};

/// What preparing a step needs to know of the job.
struct BindContext {
  const plan::Job& job;
  std::span<const Layout> layouts;         // by tensor
  std::span<const plan::TensorId> owners;  // by tensor: whose memory it lies in
  std::span<const KernelEntry> kernels;    // forced table, or empty
  int threads = 1;
  const exec::Division& division;
  exec::Collectives* ranks = nullptr;  // among which it divides
};

/// The kernel of each step: of `kernels` where that is not empty; else for float64 operands that of
/// doubles, or the reference where it has none, and the fast one for the rest. RunError, with the
/// step's line, where there is none.
std::vector<const KernelEntry*> choose_kernels(const plan::Job& job,
                                               std::span<const KernelEntry> kernels);

/// RunError, with the job-file line and the step's name, where the step cannot run here. `step`: of
/// the context's job.
BoundKernel bind_kernel(const BindContext& context, const plan::Step& step);

/// The threads for a whole call: `requested`, or as many cores as are usable, or one where the
/// call is too short to share. At most 256.
int choose_threads(const plan::Job& job, int requested);

/// The threads for one step of it: waking the others costs about a microsecond.
int choose_threads(const plan::Job& job, const plan::Step& step, int threads);

}  // namespace flow::cpu
