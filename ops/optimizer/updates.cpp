// What records of updates of variables have in common.
#include "ops/optimizer/updates.h"

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

void infer_sparse_update(Call& call, size_t slots) {
  const size_t indices = 2 + slots, factor = indices + 1;
  const Shape &rows = call.shape(0), &variable = call.shape(1);
  if (rows.rank() == 0 || variable.rank() == 0 || rows.from(1) != variable.from(1)) {
    call.bad_operand(
        1, Reason::kShapeMismatch,
        fmt::format("{} {} for rows {}", name_of(call.dtype(1)), variable.str(), rows.str()));
    return;
  }
  if (!call.have_shape(2, indices, variable) || !call.have_shape(indices, factor, rows.first(1)) ||
      (call.operands() > factor && !call.have_shape(factor, factor + 1, Shape{})))
    return;
  if (call.dtype(indices) != DType::kInt64) {
    call.bad_operand(indices, Reason::kDTypeMismatch,
                     fmt::format("indices are {}; expected int64", name_of(call.dtype(indices))));
    return;
  }
  for (size_t i = 1; i < indices; ++i) call.result(call.dtype(0), variable, kNoBatch);
}

OpSpec sparse_update(std::string_view name, OpSpec dense, InferRule infer) {
  const auto is_decay = [](const auto& attribute) {
    return attribute.name == "weight_decay" || attribute.name == "l2_decay";
  };
  OpSpec spec = std::move(dense);
  spec.name = name;
  spec.operands[0] = {"rows", "rows of the gradient of the summed loss"};
  spec.operands[1].doc = "rows like those of the gradient";
  const size_t indices = 1 + spec.results.size();
  for (size_t i = 2; i < indices; ++i)
    spec.operands[i].doc = "optimizer state, shape of the variable";
  spec.operands.insert(spec.operands.begin() + static_cast<std::ptrdiff_t>(indices),
                       {.name = "indices",
                        .doc = "of the rows, each at most once; -1: none",
                        .accepts = Accepts::kInteger});
  std::erase_if(spec.attributes, is_decay);
  std::erase_if(spec.plan_attributes, is_decay);
  spec.infer = infer;
  spec.epilogue = Epilogue::kNone;
  spec.origin = Origin{
      .operand = indices, .op = "sparse_gather_grad", .expected = "a sparse gradient of gather"};
  spec.flops.each = Flops::Each::kFirst;
  return spec;
}

const OpSpec* sparse_form(const OpSpec& update) {
  return find_spec(fmt::format("sparse_{}", update.name));
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

PlanAttribute l2_in_plans() {
  return {.name = "l2_decay", .kind = Kind::kMagnitude, .optional = true};
}

double l2_of(const Attributes& attributes) {
  const Attribute* l2 = attributes.find("l2_decay");
  return l2 ? std::get<double>(*l2) : 0;
}

RmspropEpsilons RmspropEpsilons::of(const Attributes& attributes) {
  const Attribute* inside = attributes.find("epsilon_inside");
  const auto epsilon = attributes.get<double>("epsilon");
  if (!inside || std::get<bool>(*inside)) return {epsilon, 0};
  return {0, epsilon};
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
