// Updates of variables, element by element; and what the records of all updates have in common.
#include "ops/optimizer/updates.h"

#include <fmt/format.h>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

AttributeSpec decay_rate() {
  return required_number("decay_rate", "decay rate of the moving averages");
}

OpSpec sgd_update() {
  return {.name = "sgd_update",
          .doc = "One step of gradient descent.",
          .formula = "w = w + (-lr scale) g, the factor rounded once",
          .operands = with_slots({}),
          .attributes = {gradient_scale(), rate_scale()},
          .plan_attributes = {l2_in_plans(),
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite}},
          .results = updated_with({}),
          .infer = infer_update_of<0>,
          .epilogue = Epilogue::kUpdate,
          .flops = {2},
          .internal = true};
}

OpSpec momentum_update() {
  return {.name = "momentum_update",
          .doc = "One step of gradient descent with momentum.",
          .formula =
              "m = momentum m + scale g; w = w - lr m - lr weight_decay w (nesterov: lr "
              "(scale g + momentum m))",
          .operands = with_slots({"momentum"}),
          .attributes = {gradient_scale(),
                         rate_scale(),
                         required_number("momentum", "momentum coefficient"),
                         {"nesterov", AttributeType::kBool, "false", "use Nesterov momentum"},
                         weight_decay()},
          .plan_attributes = {l2_in_plans(),
                              {"momentum", Kind::kFinite},
                              {"nesterov", Kind::kFlag},
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"momentum"}),
          .infer = infer_update_of<1>,
          .flops = {4},
          .internal = true};
}

OpSpec adam_update() {
  return {.name = "adam_update",
          .doc = "One step of Adam (Kingma and Ba, 2015).",
          .formula =
              "m = beta1 m + (1 - beta1) scale g; v = beta2 v + (1 - beta2) (scale g)^2; w "
              "= w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) - lr "
              "weight_decay w",
          .operands = with_slots({"m", "v"}),
          .attributes = {gradient_scale(),
                         rate_scale(),
                         beta1(),
                         beta2(),
                         update_epsilon(),
                         {"bias_correction", AttributeType::kBool, "true",
                          "correct m and v for their start at zero"},
                         weight_decay()},
          .plan_attributes = {{"beta1", Kind::kFraction},
                              {"beta2", Kind::kFraction},
                              {"bias_correction", Kind::kFlag},
                              {"epsilon", Kind::kFinite},
                              l2_in_plans(),
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite},
                              {"weight_decay", Kind::kFinite}},
          .results = updated_with({"m", "v"}),
          .infer = infer_update_of<2>,
          .flops = {12},
          .internal = true};
}

OpSpec amsgrad_update() {
  const std::vector<std::string_view> slots{"m", "v", "v_max"};
  OpSpec spec = adam_update();
  spec.name = "amsgrad_update";
  spec.doc = "One step of AMSGrad (Reddi et al., 2018).";
  spec.formula = "as adam_update, with v_max = max(v_max, v) in the place of v in the root";
  spec.operands = with_slots(slots);
  spec.results = updated_with(slots);
  spec.infer = infer_update_of<3>;
  spec.flops = {13};
  return spec;
}

OpSpec sparse_sgd_update() {
  OpSpec spec = sparse_update("sparse_sgd_update", sgd_update(), infer_sparse_update_of<0>);
  spec.doc = "One step of gradient descent for the rows of a sparse gradient.";
  return spec;
}

/// As PyTorch's SparseAdam.
OpSpec sparse_adam_update() {
  OpSpec spec = sparse_update("sparse_adam_update", adam_update(), infer_sparse_update_of<2>);
  spec.doc =
      "One step of lazy Adam for the rows of a sparse gradient: m and v of other rows do not "
      "decay.";
  spec.formula =
      "m, v as in adam_update; w = w - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + "
      "epsilon)";
  return spec;
}

/// `slots`: ms, the mean square, and what else the update moves.
template <size_t kSlots>
OpSpec rmsprop_like(std::string_view name, std::string_view doc, std::string_view formula,
                    const std::vector<std::string_view>& slots, double flops) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = with_slots(slots),
          .attributes = {gradient_scale(), rate_scale(), decay_rate(), update_epsilon()},
          .plan_attributes = {{"decay_rate", Kind::kFraction},
                              {"epsilon", Kind::kFinite},
                              {.name = "epsilon_inside", .kind = Kind::kFlag, .optional = true},
                              l2_in_plans(),
                              {"rate_scale", Kind::kMagnitude},
                              {"scale", Kind::kFinite}},
          .results = updated_with(slots),
          .infer = infer_update_of<kSlots>,
          .flops = {flops},
          .internal = true};
}

OpSpec rmsprop_update() {
  return rmsprop_like<1>("rmsprop_update", "One step of RMSprop (Tieleman and Hinton, 2012).",
                         "ms = decay_rate ms + (1 - decay_rate) (scale g)^2; w = w - lr scale g / "
                         "sqrt(ms + epsilon) (epsilon_inside false: / (sqrt(ms) + epsilon))",
                         {"ms"}, 9);
}

OpSpec centered_rmsprop_update() {
  return rmsprop_like<2>("centered_rmsprop_update",
                         "One step of centered RMSprop: by the variance of the gradients.",
                         "ms as in rmsprop_update; mg = decay_rate mg + (1 - decay_rate) scale g; "
                         "w = w - lr scale g / sqrt(ms - mg^2 + epsilon)",
                         {"ms", "mg"}, 12);
}

OpSpec with_momentum(OpSpec rmsprop) {
  rmsprop.attributes.push_back(required_number("momentum", "momentum coefficient"));
  rmsprop.plan_attributes.push_back({"momentum", Kind::kMagnitude});
  return rmsprop;
}

OpSpec momentum_rmsprop_update() {
  return with_momentum(rmsprop_like<2>(
      "momentum_rmsprop_update", "One step of RMSprop with momentum.",
      "ms as in rmsprop_update; momentum = momentum momentum + scale g / sqrt(ms + epsilon); w = w "
      "- lr momentum",
      {"ms", "momentum"}, 11));
}

OpSpec centered_momentum_rmsprop_update() {
  return with_momentum(rmsprop_like<3>(
      "centered_momentum_rmsprop_update", "One step of centered RMSprop with momentum.",
      "ms, mg as in centered_rmsprop_update; momentum = momentum momentum + scale g / sqrt(ms - "
      "mg^2 + epsilon); w = w - lr momentum",
      {"ms", "mg", "momentum"}, 14));
}

}  // namespace

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

std::span<const OpSpec> optimizer() {
  static const OpSpec kOps[] = {sgd_update(),
                                sparse_sgd_update(),
                                momentum_update(),
                                adam_update(),
                                sparse_adam_update(),
                                amsgrad_update(),
                                rmsprop_update(),
                                centered_rmsprop_update(),
                                momentum_rmsprop_update(),
                                centered_momentum_rmsprop_update()};
  return kOps;
}

}  // namespace flow::ops
