// Chooses the epilogue ops that a library fuses and launches the others. Also records why a library
// refuses a step.
#include "runtime/cuda/loops/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

/// Returns the number of leading epilogue ops that a library's epilogue can express.
size_t expressible(const plan::Step& step, int bias_axis) {
  size_t count = 0;
  bool relu = false;
  for (const plan::EpilogueOp& epilogue_op : step.epilogue) {
    const bool bias = epilogue_op.op->epilogue == ops::Epilogue::kBias && count == 0 &&
                      epilogue_op.attributes.get<int64_t>("axis") == bias_axis;
    if (!bias && (epilogue_op.op->epilogue != ops::Epilogue::kRelu || relu)) break;
    relu = !bias;
    ++count;
  }
  return count;
}

Epilogue epilogue_of(const plan::Step& step, size_t count) {
  Epilogue epilogue;
  for (size_t i = 0; i < count; ++i) {
    const bool relu = step.epilogue[i].op->epilogue == ops::Epilogue::kRelu;
    (relu ? epilogue.relu : epilogue.bias) = true;
  }
  return epilogue;
}

/// Prepares epilogue op `index` as a separate step, which reads and writes the result.
Kernel prepare_op(const Request& request, size_t index) {
  const plan::EpilogueOp& epilogue_op = request.step.epilogue[index];
  plan::Step step;
  step.op = epilogue_op.op;
  step.name = epilogue_op.name;
  step.attributes = epilogue_op.attributes;
  step.where = request.step.where;
  std::vector<TensorDesc> inputs = {request.outputs[0]};
  const std::vector<TensorDesc>& operands = request.epilogue_operands[index];
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  const Request apart{{step, std::move(inputs), request.outputs, {}, request.seed},
                      request.math_mode,
                      request.driver,
                      request.libraries,
                      request.checks};
  const KernelEntry* entry = find_kernel(epilogue_op.op.name());
  FLOW_CHECK(entry, "no kernel for {}", epilogue_op.op.name());
  return entry->prepare(apart);
}

/// Launches the epilogue ops first, first + 1, ...
struct ApartOps {
  size_t first = 0;
  std::vector<Kernel> kernels;

  void launch(const Buffers& buffers, const LaunchState& state) const {
    for (size_t i = 0; i < kernels.size(); ++i) {
      constexpr size_t kMostInputs = 2;
      const std::span<std::byte* const> operands = buffers.epilogue_operands[first + i];
      FLOW_CHECK(operands.size() < kMostInputs);
      std::byte* inputs[kMostInputs] = {buffers.outputs[0]};
      std::copy(operands.begin(), operands.end(), inputs + 1);
      const Buffers in_place{{inputs, operands.size() + 1}, buffers.outputs, {}, buffers.workspace};
      kernels[i].launch(in_place, state);
    }
  }
};

/// Returns the library's kernel with the first `fused` epilogue ops, followed by separate kernels
/// for the remaining ones.
Kernel complete(const Request& request, FusedKernel fused_kernel, size_t fused) {
  const plan::Step& step = request.step;
  Kernel kernel;
  kernel.workspace = fused_kernel.workspace;
  kernel.name = std::move(fused_kernel.name);
  ApartOps apart{fused, {}};
  for (size_t i = fused; i < step.epilogue.size(); ++i) {
    apart.kernels.push_back(prepare_op(request, i));
    kernel.workspace = std::max(kernel.workspace, apart.kernels.back().workspace);
  }
  kernel.launch = [launch = std::move(fused_kernel.launch), apart = std::move(apart),
                   bias = epilogue_of(step, fused).bias](const Buffers& buffers,
                                                         const LaunchState& state) {
    launch(buffers, bias ? buffers.epilogue_operands[0][0] : nullptr, state);
    apart.launch(buffers, state);
  };
  return kernel;
}

/// Returns the key under which the choice among kernels for a step with these epilogue ops is
/// stored.
std::string key_of(const plan::Step& step, const std::string& kernel) {
  std::string key = "fused epilogue ops of " + kernel + " with";
  for (const plan::EpilogueOp& op : step.epilogue) key += " " + std::string(op.op.name());
  return key;
}

}  // namespace

std::optional<Epilogue> whole_epilogue(const plan::Step& step, int bias_axis) {
  const size_t count = expressible(step, bias_axis);
  return count == step.epilogue.size() ? std::optional(epilogue_of(step, count)) : std::nullopt;
}

Kernel with_epilogue(const Request& request, int bias_axis, const FindFused& find) {
  const plan::Step& step = request.step;
  std::vector<Kernel> kernels;
  std::string key;
  for (size_t fused = request.fuse ? expressible(step, bias_axis) : 0; fused > 0; --fused) {
    const Epilogue epilogue = epilogue_of(step, fused);
    const Expected<FusedKernel> kernel = find(epilogue);
    if (!kernel || (epilogue.relu && kernel->keeps_nan && !kernel->keeps_nan())) continue;
    kernels.push_back(complete(request, *kernel, fused));
    if (!request.timer) return kernels.front();
    if (key.empty()) key = key_of(step, kernel->key);
  }
  const Expected<FusedKernel> bare = find({});
  if (bare) kernels.push_back(complete(request, *bare, 0));
  if (kernels.empty()) throw bare.error();
  return kernels.size() == 1 ? kernels.front()
                             : kernels[request.timer->fastest(key, request, kernels)];
}

namespace {

constexpr std::string_view kRefusal = "refusal";

}  // namespace

void set_refusal(plan::Step& step, std::string reason) {
  step.attributes.set(kRefusal, std::move(reason));
}

std::string name_own_kernel(const plan::Step& step, std::string_view products) {
  std::string name = "flow kernel";
  if (!products.empty()) name += fmt::format(" with {}", products);
  if (step.attributes.has(kRefusal)) name += ": " + step.attributes.get<std::string>(kRefusal);
  return name;
}

}  // namespace flow::cuda
