// The kernels of a job's steps, each prepared once.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/program/lower_epilogues.h"

namespace flow::cuda {

struct BoundKernels {
  std::vector<Kernel> kernels;         // by step; no launch: a view, or part of an update, whose
                                       // first step has the workspace of all
  std::vector<LaunchUpdates> updates;  // by group
  Checks checks;
};

/// RunError, with the job-file line and the step's name, where a step cannot run on this device.
/// `owners`: by tensor, whose memory it lies in.
BoundKernels bind_kernels(const Grouped& grouped, std::span<const plan::TensorId> owners,
                          Driver& driver, Libraries& libraries);

}  // namespace flow::cuda
