// Attention by the library, including calls in which a bias or lengths hide keys.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

struct AttentionOperand {
  DType dtype;
  Shape shape;
};

/// Returns the library spec of a step of attention or of its gradients with these operands, if
/// floats are stored as `dtype`. Otherwise returns the reason why the library cannot be used.
Expected<AttentionSpec> attention_spec(const plan::Step& step,
                                       std::span<const AttentionOperand> operands, bool log_sums,
                                       DType dtype, MathMode math_mode);

/// Returns the library's kernel for a request with 16-bit operands, or nothing.
std::optional<Kernel> find_library_attention(const Request& request);

/// Returns the kernel of a spec with lengths or a bias. It runs the library's kernel, provides
/// lengths in the library's format, and writes zeros where the library leaves results undefined.
/// `buffers_of` returns all of the library's buffers except the lengths.
Kernel prepare_hidden_keys(const Request& request, const AttentionSpec& spec,
                           const AttentionKernel& library,
                           std::function<AttentionBuffers(const Buffers&)> buffers_of);

}  // namespace flow::cuda
