// The kernels of a job's steps, each prepared once.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/exec/ranks/division.h"

namespace flow::cuda {

struct BoundKernels {
  // Indexed by step. There is no launch for a view, for a step of whose result this rank has
  // nothing, or for a part of an update.
  std::vector<Kernel> kernels;
  std::vector<Updates> updates;  // indexed by group
  Checks checks;

  /// Returns the workspace of each step in bytes. The workspace of an update belongs to its first
  /// step.
  std::vector<size_t> workspaces(std::span<const UpdateGroup> groups) const;
  /// Returns the number of bytes that a call gathers from all ranks.
  size_t gathered() const;
};

/// Lists the kernels of libraries with their workspaces.
std::vector<exec::LibraryStep> list_library_steps(const plan::Job& job, const BoundKernels& bound);

/// The slices of tensors that the steps of rank `rank` process.
struct RankSlices {
  const exec::Division& division;
  size_t rank = 0;
};

/// The sources of kernels and the options for choosing among them.
struct KernelSource {
  Driver& driver;
  Libraries& libraries;
  bool fuse = true;            // see Request
  StepTimer* timer = nullptr;  // see Request
};

/// Prepares the kernels of all steps. Throws RunError, with the job-file line and the step's name,
/// if a step cannot run on this device. `owners` contains, for each tensor, the tensor whose memory
/// it uses. `most_workspace` limits the workspace of a convolution, in bytes.
BoundKernels bind_kernels(const Grouped& grouped, std::span<const plan::TensorId> owners,
                          const RankSlices& slices, size_t most_workspace,
                          const KernelSource& source);

}  // namespace flow::cuda
