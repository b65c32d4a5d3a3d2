// Gradients that the library computes in the epilogues of products.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cuda/libraries.h"
#include "runtime/plan/plan.h"

namespace flow::cuda {

/// What a job lets libraries do.
Leeway leeway_of(const plan::Job& job);

/// The job, its posts expanded, with products that do the work of steps behind them, where
/// `libraries` have such products for this device:
/// - one whose result only a ReLU's gradient reads becomes that gradient; the product that the ReLU
///   belongs to keeps a mask for it;
/// - one that sums over the rows of a bias's gradient also makes the gradient of the bias.
/// `segments`: by step; `visible`: tensors that others than steps read.
plan::Job fuse_gradients(const plan::Job& job, std::span<const size_t> segments,
                         std::span<const plan::TensorId> visible, Libraries& libraries);

}  // namespace flow::cuda
