// Passes that make the job of a plan one as CUDA runs it: what libraries compute is lowered and
// fused, images get their channels last, and variables are updated together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The job with a step for every epilogue op that its kernel does not take (see TakesEpilogue
/// in kernel.h). What the original step made, the last of them makes; new tensors between them
/// stand behind the others. A convolution of 16-bit operands makes 16 bits, of which a cast makes
/// what the plan has.
plan::Job lower_epilogues(const plan::Job& job);

/// Steps [first, end): updates by one op with equal attributes, launched as one.
struct UpdateGroup {
  size_t first, end;
};

struct Grouped {
  plan::Job job;
  std::vector<UpdateGroup> updates;  // in order; every update is in one
};

/// Moves the updates of variables to the end of the call, where nothing reads the variables any
/// more, and brings together those that can be launched as one. Averages of variables come last. An
/// update whose result another step reads stays where it is.
Grouped group_updates(const plan::Job& job);

/// By step of `made`, which stems from `job`, the part of a call in which it runs. Where the batch
/// is cut, 0 for the steps of shards and 1 behind them. Else the segment of the step that it comes
/// from, by its name, or of what it was moved behind. `ends`: of the job's segments; empty: there
/// is one.
std::vector<size_t> parts_of(const plan::Job& job, std::span<const size_t> ends,
                             const plan::Job& made);

/// `made` has the elements of `of`, rounded to 16 bits or not.
struct Version {
  plan::TensorId made, of;
  bool channels_last = false;  // [N, H, W, C], of [N, C, H, W]
};

using Versions = std::vector<Version>;

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

/// The job with attention steps that read and make 16-bit tensors, and casts around them, if the
/// job is mixed and the library has the step and, where it is trained, its gradients too, in a
/// workspace of at most `most_workspace` bytes. Other attention steps keep their dtype and say why
/// (name_own_kernel). `visible`: tensors that others than steps read. Neither they nor probes
/// change what other steps compute. `versions`: gets the results of attention in 16 bits, by what
/// they are of; may be null.
plan::Job lower_attention(const plan::Job& job, std::span<const plan::TensorId> visible,
                          size_t most_workspace, Libraries& libraries,
                          Versions* versions = nullptr);

/// The job with one step for each recurrent layer in one direction that the library computes: the
/// product of its input, the bias and the steps. Where the layer is trained, another one makes all
/// its gradients. Other layers keep their steps and say why (name_own_kernel). `parts`: by step,
/// the part of a call in which it runs. `visible`: tensors that others than steps read. Neither
/// they nor probes change what other steps compute: what is seen of a layer's inside, its own steps
/// make in the calls that deliver it. `most_workspace`: bytes; 0: no layer is the library's.
plan::Job lower_recurrent(const plan::Job& job, std::span<const size_t> parts,
                          std::span<const plan::TensorId> visible, size_t most_workspace,
                          Libraries& libraries, Driver& driver);

/// The job, its epilogue ops expanded, with products that do the work of other steps, where
/// `libraries` have such products for this device:
/// - one whose result only a ReLU's gradient reads becomes that gradient; the product that the ReLU
///   belongs to keeps a mask for it, where `driver`'s device says that this calls no 0 positive;
/// - the one that makes a weight's gradient makes the bias's too, summed as the library does, not
///   in float64.
/// `parts`: of a call, by step; `visible`: tensors that others than steps read. What is fused does
/// not depend on them, nor on probes: where they read what is made no more, a probe makes it.
plan::Job fuse_gradients(const plan::Job& job, std::span<const size_t> parts,
                         std::span<const plan::TensorId> visible, Libraries& libraries,
                         Driver& driver);

/// The job with sums of two tensors of one shape as parts of other steps:
/// - of a batch normalization, whose result only the sum reads, and of the ReLU that alone reads
/// the
///   sum: relu(batch_norm(x) + shortcut) writes one tensor;
/// - with the gradient of a ReLU that alone reads the sum, of two gradients then: one step.
/// Values of 16 bits are rounded once then; in float32 and float64 no bit changes. `visible`:
/// tensors that others than steps read. What is fused does not depend on them, nor on probes: where
/// they read what is made no more, a probe makes it.
plan::Job fuse_residuals(const plan::Job& job, std::span<const plan::TensorId> visible);

}  // namespace flow::cuda
