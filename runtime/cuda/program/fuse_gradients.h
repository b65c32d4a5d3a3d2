// Gradients that the library computes in the epilogues of products.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

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

}  // namespace flow::cuda
