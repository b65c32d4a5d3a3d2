// Attention of mixed jobs in 16 bits, where the library has it.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/program/versions.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The job with attention steps that read and make 16-bit tensors, and casts around them, if the
/// job is mixed and the library has the step and, where it is trained, its gradients too, in a
/// workspace of at most `most_workspace` bytes. Other attention steps keep their dtype and say why
/// (name_own_kernel). `visible`: tensors that others than steps read. Neither they nor probes
/// change what other steps compute. `versions`: gets the results of attention in 16 bits, by what
/// they are of; may be null.
plan::Job lower_attention(const plan::Job& job, std::span<const plan::TensorId> visible,
                          size_t most_workspace, Libraries& libraries,
                          Versions* versions = nullptr);

}  // namespace flow::cuda
