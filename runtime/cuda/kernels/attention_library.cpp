// From steps to specs of attention.
#include "runtime/cuda/kernels/attention_library.h"

#include <string_view>
#include <utility>
#include <vector>

#include "ops/known.h"
#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

constexpr std::string_view kRefusal = "refusal";

/// [batches, heads, rows, depth] of a shape of two axes or more.
Shape in_four_axes(const Shape& shape) {
  const int rank = shape.rank();
  const int64_t heads = rank > 2 ? shape[rank - 3] : 1;
  return {shape.elements(0, rank - 2) / heads, heads, shape[rank - 2], shape[rank - 1]};
}

/// Inputs: query, key, value. Outputs: out, and log_sums, if anybody reads it.
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

Expected<AttentionSpec> attention_spec(const plan::Step& step, std::span<const Shape> operands,
                                       bool log_sums, DType dtype, MathMode math_mode) {
  const bool forward = step.op == ops::kAttention;
  const size_t query = forward ? 0 : 1;
  if (operands.size() > (forward ? 3 : 6)) return RunError("it has a mask, a bias or lengths");
  AttentionSpec spec{forward ? AttentionSpec::Pass::kForward : AttentionSpec::Pass::kGrad, dtype,
                     in_four_axes(operands[query]), in_four_axes(operands[query + 1]),
                     in_four_axes(operands[query + 2])};
  spec.scale = step.attributes.get<double>("scale");
  spec.causal = step.attributes.get<bool>("causal");
  if (step.attributes.has("window")) spec.window = step.attributes.get<int64_t>("window");
  if (step.attributes.has("diagonal")) {
    if (step.attributes.get<int64_t>("diagonal") < 0)
      return RunError("it has queries without keys");
    spec.bottom_right = true;
  }
  spec.log_sums = forward && log_sums;
  spec.math_mode = math_mode;
  return spec;
}

std::optional<Kernel> find_library_attention(const Request& request) {
  std::vector<Shape> operands;
  for (const TensorDesc& input : request.inputs) operands.push_back(input.shape);
  Expected<AttentionSpec> asked =
      attention_spec(request.step, operands, request.outputs.size() > 1 && request.outputs[1].used,
                     request.inputs[0].dtype, request.math_mode);
  if (!asked) return {};
  AttentionSpec spec = std::move(asked).value();
  spec.most_workspace = request.most_workspace;
  const Expected<AttentionKernel> found = request.libraries.find(spec);
  if (!found) return {};
  Kernel kernel;
  kernel.workspace = found->workspace;
  kernel.name = found->name;
  kernel.launch = [library = *found, forward = spec.pass == AttentionSpec::Pass::kForward,
                   log_sums = spec.log_sums](const Buffers& b, const LaunchState& state) {
    library.run(forward ? forward_buffers(b, log_sums) : grad_buffers(b), state.stream);
  };
  return kernel;
}

void set_refusal(plan::Step& step, std::string reason) {
  step.attributes.set(kRefusal, std::move(reason));
}

std::string name_own_attention(const plan::Step& step) {
  constexpr std::string_view kName = "flow kernel";
  if (!step.attributes.has(kRefusal)) return std::string(kName);
  return std::string(kName) + ": " + step.attributes.get<std::string>(kRefusal);
}

}  // namespace flow::cuda
