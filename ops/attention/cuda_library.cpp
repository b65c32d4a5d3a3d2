// Conversion of attention steps to specs of the library.
#include "ops/attention/cuda_library.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "ops/attention/problem.h"
#include "ops/core/known.h"
#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

/// Returns a shape with two or more axes as (batches, heads, rows, depth).
Shape in_four_axes(const Shape& shape) {
  const int rank = shape.rank();
  const int64_t heads = rank > 3 ? shape[rank - 3] : 1;
  return {shape.elements(0, rank - 2) / heads, heads, shape[rank - 2], shape[rank - 1]};
}

/// Returns the shape of a bias as (batches or 1, heads or 1, queries, keys), or nothing if queries,
/// keys or only some of the batch axes share the bias, which libraries do not support.
std::optional<Shape> bias_in_four_axes(const Shape& bias, const Shape& query, int64_t keys) {
  Shape whole = query;
  for (int axis = 0; axis < query.rank(); ++axis) {
    const int own = axis - (query.rank() - bias.rank());
    whole[axis] = own < 0 ? 1 : bias[own];
  }
  const Shape made = in_four_axes(whole), full = in_four_axes(query);
  const bool fits = (made[0] == 1 || made[0] == full[0]) && made[2] == full[2] && made[3] == keys;
  return fits ? std::optional(made) : std::nullopt;
}

ops::AttentionOperands places_of(const plan::Step& step,
                                 std::span<const AttentionOperand> operands) {
  return ops::AttentionOperands::find(step.op != ops::kAttention, operands.size(),
                                      [&](size_t i) { return operands[i].dtype; });
}

/// Returns the reason why the library cannot be used for the spec, or an empty text if it can.
std::string refusal_of(const AttentionSpec& spec) {
  // NVIDIA reports NaN in the gradients, and wrong results if heads share keys.
  if (spec.query[2] == 1) return "it has a single query";
  // NVIDIA documents that lengths move the bottom-right diagonal, and that windows do not support
  // more queries than keys.
  if (spec.lengths && spec.window > 0) return "it has lengths and a window";
  if (spec.lengths && spec.bottom_right) return "it has lengths and `align: bottom_right`";
  // With a bias, cuDNN's gradients can be NaN if scores are below -88 and the last tile of keys is
  // not full (see test_sdpa_negative_lse_bwd in NVIDIA's front end).
  constexpr int64_t kKeys = 128;
  if (spec.bias && spec.pass == AttentionSpec::Pass::kGrad && spec.key[2] % kKeys != 0)
    return fmt::format("it has a bias and {} keys, not a multiple of {}", spec.key[2], kKeys);
  return "";
}

/// Inputs: query, key, value. Outputs: out, and log_sums if anything reads it.
AttentionBuffers forward_buffers(const Buffers& b, bool log_sums) {
  return {.query = b.inputs[0],
          .key = b.inputs[1],
          .value = b.inputs[2],
          .out = b.outputs[0],
          .log_sums = log_sums ? b.outputs[1] : nullptr,
          .workspace = b.workspace};
}

/// Inputs: dy, query, key, value, out, log_sums.
AttentionBuffers grad_buffers(const Buffers& b) {
  return {.query = b.inputs[1],
          .key = b.inputs[2],
          .value = b.inputs[3],
          .out = b.inputs[4],
          .log_sums = b.inputs[5],
          .workspace = b.workspace,
          .dy = b.inputs[0],
          .dquery = b.outputs[0],
          .dkey = b.outputs[1],
          .dvalue = b.outputs[2]};
}

}  // namespace

Expected<AttentionSpec> attention_spec(const plan::Step& step,
                                       std::span<const AttentionOperand> operands, bool log_sums,
                                       DType dtype, MathMode math_mode) {
  const bool forward = step.op == ops::kAttention;
  const ops::AttentionOperands at = places_of(step, operands);
  if (at.mask) return RunError("it has a mask");
  const Shape& query = operands[at.query].shape;
  AttentionSpec spec{forward ? AttentionSpec::Pass::kForward : AttentionSpec::Pass::kGrad, dtype,
                     in_four_axes(query), in_four_axes(operands[at.query + 1].shape),
                     in_four_axes(operands[at.query + 2].shape)};
  spec.scale = step.attributes.get<double>("scale");
  spec.causal = step.attributes.get<bool>("causal");
  if (step.attributes.has("window")) spec.window = step.attributes.get<int64_t>("window");
  if (step.attributes.has("diagonal")) {
    if (step.attributes.get<int64_t>("diagonal") < 0)
      return RunError("it has queries without keys");
    spec.bottom_right = true;
  }
  spec.lengths = at.lengths.has_value();
  if (at.bias) {
    spec.bias = bias_in_four_axes(operands[*at.bias].shape, query, spec.key[2]);
    if (!spec.bias) return RunError("queries, keys or a part of the batch share its bias");
  }
  spec.log_sums = forward && log_sums;
  spec.math_mode = math_mode;
  if (std::string refusal = refusal_of(spec); !refusal.empty()) return RunError(refusal);
  return spec;
}

std::optional<Kernel> find_library_attention(const Request& request) {
  std::vector<AttentionOperand> operands;
  for (const TensorDesc& input : request.inputs) operands.push_back({input.dtype, input.shape});
  Expected<AttentionSpec> asked =
      attention_spec(request.step, operands, request.outputs.size() > 1 && request.outputs[1].used,
                     request.inputs[0].dtype, request.math_mode);
  if (!asked) return {};
  AttentionSpec spec = std::move(asked).value();
  spec.most_workspace = request.most_workspace;
  const Expected<AttentionKernel> found = request.libraries.find(spec);
  if (!found) return {};
  const auto buffers_of = [forward = spec.pass == AttentionSpec::Pass::kForward,
                           log_sums = spec.log_sums,
                           bias = places_of(request.step, operands).bias](const Buffers& b) {
    AttentionBuffers buffers = forward ? forward_buffers(b, log_sums) : grad_buffers(b);
    if (bias) buffers.bias = b.inputs[*bias];
    return buffers;
  };
  Kernel kernel;
  if (spec.bias || spec.lengths) {
    kernel = prepare_hidden_keys(request, spec, *found, buffers_of);
  } else {
    kernel.workspace = found->workspace;
    kernel.launch = [library = *found, buffers_of](const Buffers& b, const LaunchState& state) {
      library.run(buffers_of(b), state.stream);
    };
  }
  kernel.name = found->name;
  return kernel;
}

}  // namespace flow::cuda
