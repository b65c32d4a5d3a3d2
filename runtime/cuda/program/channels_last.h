// Images with their channels last, as tensor cores read them.
#pragma once

#include <span>

#include "runtime/cuda/program/versions.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The job, its epilogue ops lowered, with the images between its 16-bit and TF32 convolutions as
/// [N, H, W, C], in 16 bits where the convolutions read 16; so are their filters. Steps whose
/// kernels take images so (KernelEntry::channels_last) follow; what other steps, hooks and other
/// devices read is as the plan says, converted by one step. Other convolutions stay as they are.
/// `delivered`: tensors that hooks and returns read; `transferred`: those that other devices read.
/// What is moved does not depend on them, nor on probes. `versions`: gets images, by what they are
/// images of; may be null.
plan::Job move_channels_last(const plan::Job& job, std::span<const plan::TensorId> delivered,
                             std::span<const plan::TensorId> transferred,
                             Versions* versions = nullptr);

}  // namespace flow::cuda
