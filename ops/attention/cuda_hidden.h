// Attention by a library where a bias or lengths hide keys.
#pragma once

#include <functional>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// The step of a spec with lengths or a bias by the library's kernel, with what that lacks: lengths
/// as it takes them, and zeros in place of what it leaves undefined. `buffers_of` gives all of its
/// buffers but the lengths.
Kernel prepare_hidden_keys(const Request& request, const AttentionSpec& spec,
                           const AttentionKernel& library,
                           std::function<AttentionBuffers(const Buffers&)> buffers_of);

}  // namespace flow::cuda
