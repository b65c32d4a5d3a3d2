// What records of updates of variables have in common.
#include "ops/updates.h"

#include <fmt/format.h>

namespace flow::ops {

bool fit_gradient(Call& call, size_t count) {
  const Operand& gradient = call.operand(0);
  for (size_t i = 1; i < count; ++i) {
    const Operand& other = call.operand(i);
    if (other.shape != gradient.shape)
      call.bad_operand(
          i, Reason::kShapeMismatch,
          fmt::format("{} {} for a gradient {} {}", name_of(other.dtype), other.shape.str(),
                      name_of(gradient.dtype), gradient.shape.str()));
  }
  return !call.failed();
}

void infer_update(Call& call, size_t slots) {
  const size_t alike = 2 + slots;
  fit_gradient(call, alike);
  if (call.operands() > alike && call.shape(alike).rank() > 0)
    call.bad_operand(alike, Reason::kShapeMismatch,
                     fmt::format("a factor {}", call.shape(alike).str()));
  if (call.failed()) return;
  const Operand& gradient = call.operand(0);
  for (size_t i = 1; i < alike; ++i) call.result(gradient.dtype, gradient.shape, kNoBatch);
}

AttributeSpec required_number(std::string_view name, std::string_view doc) {
  return {name, AttributeType::kNumber, "", doc};
}

AttributeSpec gradient_scale() {
  return {"scale", AttributeType::kNumber, "1",
          "factor on the gradient: 1 / number of loss elements"};
}

AttributeSpec rate_scale() {
  return {"rate_scale", AttributeType::kNumber, "1", "factor on the learning rate"};
}

AttributeSpec weight_decay() {
  return {"weight_decay", AttributeType::kNumber, "0", "weight decay coefficient"};
}

AttributeSpec update_epsilon() {
  return required_number("epsilon", "added to the denominator for numerical stability");
}
AttributeSpec beta1() { return required_number("beta1", "decay rate of m"); }
AttributeSpec beta2() { return required_number("beta2", "decay rate of v"); }

std::vector<OperandSpec> with_slots(const std::vector<std::string_view>& slots) {
  std::vector<OperandSpec> operands{{"gradient", "gradient of the summed loss"},
                                    {"variable", "same shape as the gradient"}};
  for (const std::string_view slot : slots)
    operands.push_back({slot, "optimizer state, same shape as the gradient"});
  operands.push_back(
      {.name = "factor", .doc = "factor on the gradient, a scalar", .optional = true});
  return operands;
}

std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots) {
  std::vector<ResultSpec> results{{.name = "updated", .updates = size_t{1}}};
  for (const std::string_view slot : slots)
    results.push_back({.name = slot, .updates = results.size() + 1});
  return results;
}

}  // namespace flow::ops
