// Passes that turn a job of a plan into a job for CUDA: they lower and fuse the steps that
// libraries compute, store images with channels last, and group the updates of variables.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Returns the job with a separate step for every epilogue op that its kernel does not accept (see
/// TakesEpilogue in kernel.h). The last of these steps makes the result of the original step. The
/// new tensors between them are appended to the job's tensors. A convolution of 16-bit operands
/// makes a 16-bit result, which a cast converts to the plan's tensor.
plan::Job lower_epilogues(const plan::Job& job);

/// The steps [first, end), which are updates by one op with equal attributes and are launched
/// together.
struct UpdateGroup {
  size_t first, end;
};

struct Grouped {
  plan::Job job;
  std::vector<UpdateGroup> updates;  // sorted; every update is in exactly one group
};

/// Moves the updates of variables to the end of the call, where nothing reads the variables
/// anymore, and groups those that can be launched together. Averages of variables come last. An
/// update whose result another step reads is not moved.
Grouped group_updates(const plan::Job& job);

/// Returns, for each step of `made`, which is derived from `job`, the part of a call in which it
/// runs. If the batch is cut into shards, the part is 0 for the steps of shards and 1 for the steps
/// after them. Otherwise, it is the segment of the step in `job` that it comes from, which its name
/// identifies, or that of the step that it was moved after. `ends` contains the ends of the job's
/// segments; if it is empty, there is one segment.
std::vector<size_t> parts_of(const plan::Job& job, std::span<const size_t> ends,
                             const plan::Job& made);

/// A tensor `made` with the elements of the tensor `of`, possibly rounded to 16 bits.
struct Version {
  plan::TensorId made, of;
  bool channels_last = false;  // true if `made` is [N, H, W, C] and `of` is [N, C, H, W]
};

using Versions = std::vector<Version>;

/// Returns the job with its epilogue ops lowered and with channels last, [N, H, W, C], in the
/// images between its 16-bit and TF32 convolutions and in their filters. Both are stored in 16 bits
/// if the convolutions read 16 bits. Steps whose kernels accept such images
/// (KernelEntry::channels_last) are changed as well. Images that other steps, hooks and other
/// devices read remain as in the plan; one step converts them. Other convolutions are unchanged.
/// `delivered` lists the tensors that hooks and returns read, and `transferred` those that other
/// devices read. Neither they nor probes influence which tensors change. `versions`, which may be
/// null, receives the images and the tensors that they are versions of.
plan::Job move_channels_last(const plan::Job& job, std::span<const plan::TensorId> delivered,
                             std::span<const plan::TensorId> transferred,
                             Versions* versions = nullptr);

/// Returns the job with attention steps that read and make 16-bit tensors, with casts around them.
/// This requires a mixed-precision job and a library that supports the step and, if it is trained,
/// also its gradients, with a workspace of at most `most_workspace` bytes. Other attention steps
/// keep their dtype, and the name of their kernel states the reason (name_own_kernel). `visible`
/// lists the tensors that are read outside of steps. Neither they nor probes change the results of
/// other steps. `versions`, which may be null, receives the 16-bit results of attention and the
/// tensors that they are versions of.
plan::Job lower_attention(const plan::Job& job, std::span<const plan::TensorId> visible,
                          size_t most_workspace, Libraries& libraries,
                          Versions* versions = nullptr);

/// Returns the job with one step for each recurrent layer in one direction that the library
/// computes. The step replaces the product of the layer's input, the bias and the layer's steps. If
/// the layer is trained, another step makes all its gradients. Other layers keep their steps, and
/// the names of their kernels state the reason (name_own_kernel). `parts` contains, for each step,
/// the part of a call in which it runs. `visible` lists the tensors that are read outside of steps.
/// Neither they nor probes change the results of other steps: if a tensor inside a layer is
/// visible, the layer's original steps make it in the calls that deliver it. `most_workspace` is in
/// bytes; if it is 0, the library computes no layer.
plan::Job lower_recurrent(const plan::Job& job, std::span<const size_t> parts,
                          std::span<const plan::TensorId> visible, size_t most_workspace,
                          Libraries& libraries, Driver& driver);

/// Returns the job with its epilogue ops expanded and with products that also do the work of other
/// steps, if `libraries` have products of this kind for this device:
/// - A product whose result is read only by the gradient of a ReLU becomes that gradient. The
///   product before the ReLU stores a mask for it, provided that the mask never marks a 0 as
///   positive on `driver`'s device.
/// - The product that makes the gradient of a weight also makes the gradient of the bias, which is
///   summed by the library and not in float64.
/// `parts` contains, for each step, the part of a call in which it runs. `visible` lists the
/// tensors that are read outside of steps. Neither they nor probes influence which steps are fused:
/// if they read a tensor that is no longer made, a probe makes it.
plan::Job fuse_gradients(const plan::Job& job, std::span<const size_t> parts,
                         std::span<const plan::TensorId> visible, Libraries& libraries,
                         Driver& driver);

/// Returns the job with sums of two tensors of one shape fused into other steps:
/// - The sum is fused with a batch normalization whose result only the sum reads, and with a ReLU
///   that is the only reader of the sum: relu(batch_norm(x) + shortcut) writes one tensor.
/// - The sum of two gradients is fused with the gradient of a ReLU that is its only reader, into
///   one step.
/// Values of 16 bits are then rounded only once; float32 and float64 results stay bit-identical.
/// `visible` lists the tensors that are read outside of steps. Neither they nor probes influence
/// which steps are fused: if they read a tensor that is no longer made, a probe makes it.
plan::Job fuse_residuals(const plan::Job& job, std::span<const plan::TensorId> visible);

}  // namespace flow::cuda
