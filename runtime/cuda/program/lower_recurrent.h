// Recurrent layers by the library, where it has them.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The job with one step for each recurrent layer in one direction that the library computes: the
/// product of its input, the bias and the steps. Where the layer is trained, another one makes all
/// its gradients. Other layers keep their steps and say why (name_own_kernel). `parts`: by step,
/// the part of a call in which it runs. `visible`: tensors that others than steps read. Neither
/// they nor probes change what other steps compute: what is seen of a layer's inside, its own steps
/// make in the calls that deliver it. `most_workspace`: bytes; 0: no layer is the library's.
plan::Job lower_recurrent(const plan::Job& job, std::span<const size_t> parts,
                          std::span<const plan::TensorId> visible, size_t most_workspace,
                          Libraries& libraries, Driver& driver);

}  // namespace flow::cuda
