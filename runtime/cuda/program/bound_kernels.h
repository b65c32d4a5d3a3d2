// The kernels of a job's steps, each prepared once.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/exec/ranks/division.h"

namespace flow::cuda {

struct BoundKernels {
  std::vector<Kernel> kernels;   // by step; no launch: a view, a step of whose result this rank has
                                 // nothing, or part of an update
  std::vector<Updates> updates;  // by group
  Checks checks;

  /// Bytes of the workspace of each step. That of an update is the first step's.
  std::vector<size_t> workspaces(std::span<const UpdateGroup> groups) const;
  /// Bytes that come together from all ranks in a call.
  size_t gathered() const;
};

/// The kernels of libraries, with their workspaces.
std::vector<exec::LibraryStep> list_library_steps(const plan::Job& job, const BoundKernels& bound);

/// The slices of tensors that steps of rank `rank` work on.
struct RankSlices {
  const exec::Division& division;
  size_t rank = 0;
};

/// What kernels are chosen from, and how.
struct KernelSource {
  Driver& driver;
  Libraries& libraries;
  bool fuse = true;            // as of Request
  StepTimer* timer = nullptr;  // likewise
};

/// RunError, with the job-file line and the step's name, where a step cannot run on this device.
/// `owners`: by tensor, whose memory it lies in. `most_workspace`: bytes, of a convolution.
BoundKernels bind_kernels(const Grouped& grouped, std::span<const plan::TensorId> owners,
                          const RankSlices& slices, size_t most_workspace,
                          const KernelSource& source);

}  // namespace flow::cuda
