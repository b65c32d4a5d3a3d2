// Chooses the layouts of 4-D tensors, and reorders tensors from one layout to the other.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// Returns the layout of every tensor. Activations of convolutions and pools are channels-last, and
/// so are tensors that are connected to them by kernels that accept either layout. All other
/// tensors are plain. `kernels` contains one kernel for each step of the job.
std::vector<Layout> assign_layouts(const plan::Job& job,
                                   std::span<const KernelEntry* const> kernels);

/// Returns true if a tensor of this shape has the same bytes in both layouts.
bool layouts_coincide(const Shape& shape);

/// Returns true if the elements of both tensors are in the same order in memory. This is not the
/// case if their layouts differ, or if they have the same layout, which is not plain, but different
/// shapes.
bool lie_alike(const plan::Job& job, std::span<const Layout> layouts, plan::TensorId a,
               plan::TensorId b);

/// Copies [N, C, H, W] elements of `element` bytes (1, 2, 4 or 8) from one layout to the other.
/// REQUIRES: The buffers do not overlap.
void reorder(int threads, size_t element, const Shape& shape, Layout from, const std::byte* in,
             Layout to, std::byte* out);

}  // namespace flow::cpu
