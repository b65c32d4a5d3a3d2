// Which 4-D tensors lie channels-last, and the reorder between the layouts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// The layout of every tensor. Activations of convolutions and pools lie channels-last, and so does
/// what is joined to them by kernels that take either layout; the rest is plain. `kernels`: one for
/// each step of the job.
std::vector<Layout> assign_layouts(const plan::Job& job,
                                   std::span<const KernelEntry* const> kernels);

/// True when a tensor of this shape has the same bytes in both layouts.
bool layouts_coincide(const Shape& shape);

/// Do the elements of both lie in memory in the same order? What differs in layout, or keeps a
/// layout under another shape, does not.
bool lie_alike(const plan::Job& job, std::span<const Layout> layouts, plan::TensorId a,
               plan::TensorId b);

/// Copies [N, C, H, W] elements of `element` bytes (1, 2, 4 or 8) from one layout into the other.
/// REQUIRES: the buffers do not overlap.
void reorder(int threads, size_t element, const Shape& shape, Layout from, const std::byte* in,
             Layout to, std::byte* out);

}  // namespace flow::cpu
