// Calls of the library's recurrent layers, including packing of weights and unpacking of their
// gradients.
#include "ops/recurrent/cuda_library.h"

#include <array>
#include <utility>
#include <vector>

#include "ops/core/known.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"

namespace flow::cuda {
namespace {

using Cell = RecurrentSpec::Cell;

constexpr std::string_view kInputBias = "input_bias", kRecurrentBias = "recurrent_bias";

size_t in_whole_blocks(size_t bytes) { return round_up(bytes, 256); }

/// Merges parts that are adjacent both in the plan's tensors and in the library's memory, so one
/// copy is enough for them.
std::vector<WeightPart> merge_parts(const std::vector<WeightPart>& layout) {
  std::vector<WeightPart> parts;
  for (const WeightPart& part : layout) {
    const bool follows = !parts.empty() && parts.back().tensor == part.tensor &&
                         parts.back().from + parts.back().bytes == part.from &&
                         parts.back().to + parts.back().bytes == part.to;
    if (follows)
      parts.back().bytes += part.bytes;
    else
      parts.push_back(part);
  }
  return parts;
}

/// Returns the description of a step that calls the library. `all` is a tensor (N, T, H).
RecurrentSpec library_spec(const Request& request, RecurrentSpec::Pass pass, const TensorDesc& all,
                           const TensorDesc& x) {
  RecurrentSpec spec{pass,         library_cell(request.step).value(),
                     all.dtype,    all.shape[0],
                     all.shape[1], x.shape.elements() / (all.shape[0] * all.shape[1]),
                     all.shape[2]};
  spec.input_bias = request.step.attributes.get<bool>(kInputBias);
  spec.recurrent_bias = request.step.attributes.get<bool>(kRecurrentBias);
  spec.math_mode = request.math_mode;
  return spec;
}

/// Returns the operands one by one.
class OperandReader {
 public:
  explicit OperandReader(std::span<std::byte* const> all) : all_(all) {}
  std::byte* next() { return all_[at_++]; }
  std::byte* next_if(bool there) { return there ? next() : nullptr; }

 private:
  std::span<std::byte* const> all_;
  size_t at_ = 0;
};

/// The plan's weights and biases, indexed by WeightPart::Tensor.
using WeightTensors = std::array<std::byte*, 4>;

Kernel unlaunched(const RecurrentKernel& library, size_t own_workspace) {
  Kernel kernel;
  kernel.workspace = own_workspace + library.workspace;
  kernel.name = library.name;
  return kernel;
}

}  // namespace

void set_library_layer(plan::Step& step, const RecurrentSpec& spec) {
  step.attributes.set(kInputBias, spec.input_bias);
  step.attributes.set(kRecurrentBias, spec.recurrent_bias);
}

bool is_library_layer(const plan::Step& step) { return step.attributes.has(kInputBias); }

Expected<Cell> library_cell(const plan::Step& step) {
  if (step.op == ops::kLstmSteps || step.op == ops::kLstmStepsGrad) return Cell::kLstm;
  if (step.op == ops::kGruSteps || step.op == ops::kGruStepsGrad) {
    if (step.attributes.get<bool>("linear_before_reset")) return Cell::kGru;
    return RunError("the reset gate comes before the product");
  }
  if (step.attributes.get<std::string>("activation") == "tanh") return Cell::kTanh;
  return RunError("its ReLU may lose NaN");
}

size_t reserve_bytes(const RecurrentKernel& kernel) {
  return in_whole_blocks(kernel.weights) + kernel.reserve;
}

Kernel prepare_library_layer(const Request& request) {
  const TensorDesc& out = request.outputs[0];
  RecurrentSpec spec = library_spec(request, RecurrentSpec::Pass::kForward, out, request.inputs[0]);
  const bool has_c = spec.cell == Cell::kLstm;
  const size_t reserve_at = has_c ? 3 : 2;
  spec.trains = request.outputs.size() > reserve_at;
  const RecurrentKernel library = request.libraries.find(spec).value();
  const size_t weights = in_whole_blocks(library.weights), own = spec.trains ? 0 : weights;
  Kernel kernel = unlaunched(library, own);
  kernel.launch = [=, parts = merge_parts(library.layout)](const Buffers& b,
                                                           const LaunchState& state) {
    OperandReader in(b.inputs), out_of(b.outputs);
    RecurrentBuffers buffers{};
    buffers.x = in.next();
    WeightTensors tensors{in.next(), in.next()};
    buffers.h0 = in.next();
    buffers.c0 = in.next_if(has_c);
    tensors[WeightPart::kInputBias] = in.next_if(spec.input_bias);
    tensors[WeightPart::kRecurrentBias] = in.next_if(spec.recurrent_bias);
    buffers.y = out_of.next();
    buffers.h = out_of.next();
    buffers.c = out_of.next_if(has_c);
    std::byte* const packed = spec.trains ? out_of.next() : b.workspace;
    buffers.reserve = spec.trains ? packed + weights : nullptr;
    buffers.weights = packed;
    buffers.workspace = b.workspace + own;
    for (const WeightPart& part : parts)
      state.driver.copy(packed + part.to, tensors[part.tensor] + part.from, part.bytes,
                        state.stream);
    library.run(buffers, state.stream);
  };
  return kernel;
}

Kernel prepare_library_layer_grad(const Request& request) {
  const RecurrentSpec spec =
      library_spec(request, RecurrentSpec::Pass::kGrad, request.inputs[0], request.inputs.back());
  const bool has_c = spec.cell == Cell::kLstm;
  const RecurrentKernel library = request.libraries.find(spec).value();
  constexpr size_t kFirstWeight = 3;
  std::array<bool, 4> wanted{};
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = request.outputs[kFirstWeight + i].used;
  std::vector<WeightPart> parts = merge_parts(library.layout);
  std::erase_if(parts, [&](const WeightPart& part) { return !wanted[part.tensor]; });
  const size_t weights = in_whole_blocks(library.weights), own = parts.empty() ? 0 : weights;
  Kernel kernel = unlaunched(library, own);
  kernel.launch = [=](const Buffers& b, const LaunchState& state) {
    OperandReader in(b.inputs), out_of(b.outputs);
    RecurrentBuffers buffers{};
    buffers.dy = in.next();
    buffers.dh = in.next();
    buffers.dc = in.next_if(has_c);
    buffers.h0 = in.next();
    buffers.c0 = in.next_if(has_c);
    buffers.y = in.next();
    std::byte* const packed = in.next();
    buffers.weights = packed;
    buffers.reserve = packed + weights;
    buffers.x = in.next();
    buffers.dx = out_of.next();
    buffers.dh0 = out_of.next();
    buffers.dc0 = out_of.next();
    buffers.dweights = parts.empty() ? nullptr : b.workspace;
    buffers.workspace = b.workspace + own;
    if (!parts.empty()) state.driver.clear(b.workspace, library.weights, state.stream);
    library.run(buffers, state.stream);
    for (const WeightPart& part : parts)
      state.driver.copy(b.outputs[kFirstWeight + part.tensor] + part.from, b.workspace + part.to,
                        part.bytes, state.stream);
  };
  return kernel;
}

}  // namespace flow::cuda
