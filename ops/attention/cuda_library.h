// Attention by the library, also where a bias or lengths hide keys.
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

/// What an attention step, or that of its gradients, asks of the library, if it has these operands
/// and floats are stored as `dtype`. Or why no library is asked.
Expected<AttentionSpec> attention_spec(const plan::Step& step,
                                       std::span<const AttentionOperand> operands, bool log_sums,
                                       DType dtype, MathMode math_mode);

/// The library's kernel for a request of 16-bit operands, or none.
std::optional<Kernel> find_library_attention(const Request& request);

/// The step of a spec with lengths or a bias by the library's kernel, with what that lacks: lengths
/// as it takes them, and zeros in place of what it leaves undefined. `buffers_of` gives all of its
/// buffers but the lengths.
Kernel prepare_hidden_keys(const Request& request, const AttentionSpec& spec,
                           const AttentionKernel& library,
                           std::function<AttentionBuffers(const Buffers&)> buffers_of);

}  // namespace flow::cuda
