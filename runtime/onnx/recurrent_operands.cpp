// Steps of a recurrent layer with the product of their input.
#include "runtime/onnx/recurrent_operands.h"

#include <algorithm>

#include "ops/core/spec.h"

namespace flow::onnx {
namespace {

using plan::TensorId;

/// The step that makes it, or null.
const plan::Step* maker_of(const plan::Job& job, TensorId id) {
  if (!id.valid()) return nullptr;
  const auto found = std::ranges::find_if(
      job.steps, [&](const plan::Step& step) { return std::ranges::count(step.outputs, id) > 0; });
  return found == job.steps.end() ? nullptr : &*found;
}

bool does(const plan::Step* step, std::string_view op) {
  return step && step->op.spec() == ops::find_spec(op);
}

bool adds_bias(const ops::OpRef& op) { return op->epilogue == ops::Epilogue::kBias; }

/// x weight^T, with a bias where it has one.
struct Product {
  TensorId x, weight, bias;
};

std::optional<Product> product_of(const plan::Job& job, TensorId result) {
  Product product;
  const plan::Step* step = maker_of(job, result);
  if (step && step->epilogue.empty() && adds_bias(step->op)) {
    product.bias = step->inputs[1];
    step = maker_of(job, step->inputs[0]);
  } else if (step && step->epilogue.size() == 1 && adds_bias(step->epilogue[0].op)) {
    product.bias = step->epilogue[0].operands[0];
  } else if (step && !step->epilogue.empty()) {
    return {};
  }
  if (!does(step, "matmul") || step->inputs.size() != 2 ||
      step->attributes.get<bool>("transpose_a") || !step->attributes.get<bool>("transpose_b"))
    return {};
  product.x = step->inputs[0];
  product.weight = step->inputs[1];
  return product;
}

bool is_zeros(const plan::Job& job, TensorId id) {
  const plan::Step* maker = maker_of(job, id);
  return is_float(job[id].dtype) && does(maker, "fill") &&
         maker->attributes.get<double>("value") == 0;
}

}  // namespace

std::optional<std::vector<TensorId>> recurrent_operands(const plan::Job& job,
                                                        const plan::Step& step) {
  const plan::Step* gates = maker_of(job, step.inputs[0]);
  if (!does(gates, "reshape")) return {};
  const auto product = product_of(job, gates->inputs[0]);
  if (!product) return {};
  std::vector<TensorId> operands = {product->x, product->weight, product->bias};
  for (size_t i = 1; i < step.inputs.size(); ++i)
    operands.push_back(is_zeros(job, step.inputs[i]) ? TensorId() : step.inputs[i]);
  if (does(&step, "gru_steps")) return operands;
  // The sum of both biases is added to the product.
  const plan::Step* sum = maker_of(job, product->bias);
  const bool both = does(sum, "add") && sum->epilogue.empty();
  if (both) operands[2] = sum->inputs[0];
  operands.insert(operands.begin() + 4, both ? sum->inputs[1] : TensorId());
  return operands;
}

}  // namespace flow::onnx
