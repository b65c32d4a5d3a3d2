// Attention by the library.
#pragma once

#include <optional>
#include <span>

#include "runtime/base/expected.h"
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

}  // namespace flow::cuda
