// Updates of variables, element by element; and what the records of all updates have in common.
#include "ops/optimizer/updates.h"

#include "ops/core/families.h"

namespace flow::ops {
namespace {

OpSpec sgd_update() {
  OpSpec spec =
      update_spec("sgd_update", "One step of gradient descent.",
                  "w = w + (-lr scale) g, the factor rounded once", {}, {}, 2, {l2_in_plans()});
  spec.epilogue = Epilogue::kUpdate;
  return spec;
}

OpSpec momentum_update() {
  return update_spec("momentum_update", "One step of gradient descent with momentum.",
                     "m = momentum m + scale g; w = w - lr m - lr weight_decay w (nesterov: lr "
                     "(scale g + momentum m))",
                     {"momentum"},
                     {required_number("momentum", "momentum coefficient"),
                      {"nesterov", AttributeType::kBool, "false", "use Nesterov momentum"},
                      weight_decay()},
                     4, {l2_in_plans()});
}

/// `slots`: m, v, and what else the update moves.
OpSpec adam_like(std::string_view name, std::string_view doc, std::string_view formula,
                 const std::vector<std::string_view>& slots, double flops) {
  return update_spec(
      name, doc, formula, slots,
      {beta1(),
       beta2(),
       update_epsilon(),
       {"bias_correction", AttributeType::kBool, "true", "correct m and v for their start at zero"},
       weight_decay()},
      flops, {l2_in_plans()});
}

OpSpec adam_update() {
  return adam_like("adam_update", "One step of Adam (Kingma and Ba, 2015).",
                   "m = beta1 m + (1 - beta1) scale g; v = beta2 v + (1 - beta2) (scale g)^2; w "
                   "= w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) - lr "
                   "weight_decay w",
                   {"m", "v"}, 12);
}

OpSpec amsgrad_update() {
  return adam_like("amsgrad_update", "One step of AMSGrad (Reddi et al., 2018).",
                   "as adam_update, with v_max = max(v_max, v) in the place of v in the root",
                   {"m", "v", "v_max"}, 13);
}

OpSpec sparse_sgd_update() {
  return sparse_update("sparse_sgd_update",
                       "One step of gradient descent for the rows of a sparse gradient.",
                       sgd_update());
}

/// As PyTorch's SparseAdam.
OpSpec sparse_adam_update() {
  OpSpec spec = sparse_update("sparse_adam_update",
                              "One step of lazy Adam for the rows of a sparse gradient: m and v of "
                              "other rows do not decay.",
                              adam_update());
  spec.formula =
      "m, v as in adam_update; w = w - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + "
      "epsilon)";
  return spec;
}

/// `slots`: ms, the mean square, and what else the update moves.
OpSpec rmsprop_like(std::string_view name, std::string_view doc, std::string_view formula,
                    const std::vector<std::string_view>& slots, double flops) {
  std::vector<AttributeSpec> attributes{decay_rate(), update_epsilon()};
  if (slots.back() == "momentum")
    attributes.push_back(required_magnitude("momentum", "momentum coefficient"));
  return update_spec(
      name, doc, formula, slots, attributes, flops,
      {{.name = "epsilon_inside", .kind = Kind::kFlag, .optional = true}, l2_in_plans()});
}

OpSpec rmsprop_update() {
  return rmsprop_like("rmsprop_update", "One step of RMSprop (Tieleman and Hinton, 2012).",
                      "ms = decay_rate ms + (1 - decay_rate) (scale g)^2; w = w - lr scale g / "
                      "sqrt(ms + epsilon) (epsilon_inside false: / (sqrt(ms) + epsilon))",
                      {"ms"}, 9);
}

OpSpec centered_rmsprop_update() {
  return rmsprop_like("centered_rmsprop_update",
                      "One step of centered RMSprop: by the variance of the gradients.",
                      "ms as in rmsprop_update; mg = decay_rate mg + (1 - decay_rate) scale g; "
                      "w = w - lr scale g / sqrt(ms - mg^2 + epsilon)",
                      {"ms", "mg"}, 12);
}

OpSpec momentum_rmsprop_update() {
  return rmsprop_like("momentum_rmsprop_update", "One step of RMSprop with momentum.",
                      "ms as in rmsprop_update; momentum = momentum momentum + scale g / sqrt(ms + "
                      "epsilon); w = w - lr momentum",
                      {"ms", "momentum"}, 11);
}

OpSpec centered_momentum_rmsprop_update() {
  return rmsprop_like(
      "centered_momentum_rmsprop_update", "One step of centered RMSprop with momentum.",
      "ms, mg as in centered_rmsprop_update; momentum = momentum momentum + scale g "
      "/ sqrt(ms - mg^2 + epsilon); w = w - lr momentum",
      {"ms", "mg", "momentum"}, 14);
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

OpSpec update_spec(std::string_view name, std::string_view doc, std::string_view formula,
                   const std::vector<std::string_view>& slots,
                   const std::vector<AttributeSpec>& attributes, double flops,
                   std::vector<PlanAttribute> in_plans) {
  constexpr InferRule kInfer[] = {infer_update_of<0>, infer_update_of<1>, infer_update_of<2>,
                                  infer_update_of<3>};
  OpSpec spec{.name = name,
              .doc = doc,
              .formula = formula,
              .operands = with_slots(slots),
              .attributes = {gradient_scale(), rate_scale()},
              .plan_attributes = std::move(in_plans),
              .results = updated_with(slots),
              .infer = kInfer[slots.size()],
              .flops = {flops},
              .internal = true};
  spec.attributes.insert(spec.attributes.end(), attributes.begin(), attributes.end());
  return spec;
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

namespace {

/// An update of rows, whose indices follow the slots.
template <size_t kSlots>
void infer_sparse_update(Call& call) {
  constexpr size_t kIndices = 2 + kSlots, kFactor = kIndices + 1;
  const Shape &rows = call.shape(0), &variable = call.shape(1);
  if (rows.rank() == 0 || variable.rank() == 0 || rows.from(1) != variable.from(1)) {
    call.bad_operand(
        1, Reason::kShapeMismatch,
        fmt::format("{} {} for rows {}", name_of(call.dtype(1)), variable.str(), rows.str()));
    return;
  }
  if (!call.have_shape(2, kIndices, variable) ||
      !call.have_shape(kIndices, kFactor, rows.first(1)) ||
      (call.operands() > kFactor && !call.have_shape(kFactor, kFactor + 1, Shape{})))
    return;
  if (call.dtype(kIndices) != DType::kInt64) {
    call.bad_operand(kIndices, Reason::kDTypeMismatch,
                     fmt::format("indices are {}; expected int64", name_of(call.dtype(kIndices))));
    return;
  }
  for (size_t i = 1; i < kIndices; ++i) call.result(call.dtype(0), variable, kNoBatch);
}

}  // namespace

OpSpec sparse_update(std::string_view name, std::string_view doc, OpSpec dense) {
  constexpr InferRule kInfer[] = {infer_sparse_update<0>, infer_sparse_update<1>,
                                  infer_sparse_update<2>};
  const auto is_decay = [](const auto& attribute) {
    return attribute.name == "weight_decay" || attribute.name == "l2_decay";
  };
  OpSpec spec = std::move(dense);
  spec.name = name;
  spec.doc = doc;
  spec.operands[0] = {"rows", "rows of the gradient of the summed loss"};
  spec.operands[1].doc = "rows like those of the gradient";
  const size_t indices = 1 + spec.results.size();
  for (size_t i = 2; i < indices; ++i)
    spec.operands[i].doc = "optimizer state, shape of the variable";
  spec.operands.insert(spec.operands.begin() + static_cast<std::ptrdiff_t>(indices),
                       integers("indices", "of the rows, each at most once; -1: none"));
  std::erase_if(spec.attributes, is_decay);
  std::erase_if(spec.plan_attributes, is_decay);
  spec.infer = kInfer[spec.results.size() - 1];
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
  return number_attribute(name, "", doc);
}

AttributeSpec required_magnitude(std::string_view name, std::string_view doc) {
  return of_kind(Kind::kMagnitude, required_number(name, doc));
}

AttributeSpec required_fraction(std::string_view name, std::string_view doc) {
  return of_kind(Kind::kFraction, required_number(name, doc));
}

AttributeSpec gradient_scale() {
  return number_attribute("scale", "1", "factor on the gradient: 1 / number of loss elements");
}

AttributeSpec rate_scale() {
  return of_kind(Kind::kMagnitude,
                 number_attribute("rate_scale", "1", "factor on the learning rate"));
}

AttributeSpec weight_decay() {
  return number_attribute("weight_decay", "0", "weight decay coefficient");
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
AttributeSpec beta1() { return required_fraction("beta1", "decay rate of m"); }
AttributeSpec beta2() { return required_fraction("beta2", "decay rate of v"); }
AttributeSpec decay_rate() {
  return required_fraction("decay_rate", "decay rate of the moving averages");
}

OperandSpec gradient_factor() {
  return optional_floats("factor", "factor on the gradient, a scalar");
}

std::vector<OperandSpec> with_slots(const std::vector<std::string_view>& slots) {
  std::vector<OperandSpec> operands{{"gradient", "gradient of the summed loss"},
                                    {"variable", "same shape as the gradient"}};
  for (const std::string_view slot : slots)
    operands.push_back({slot, "optimizer state, same shape as the gradient"});
  operands.push_back(gradient_factor());
  return operands;
}

std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots) {
  std::vector<ResultSpec> results{{.name = "updated", .updates = size_t{1}}};
  for (const std::string_view slot : slots)
    results.push_back({.name = slot, .updates = results.size() + 1});
  return results;
}

std::vector<OpSpec> optimizer() {
  return {sgd_update(),
          sparse_sgd_update(),
          momentum_update(),
          adam_update(),
          sparse_adam_update(),
          amsgrad_update(),
          rmsprop_update(),
          centered_rmsprop_update(),
          momentum_rmsprop_update(),
          centered_momentum_rmsprop_update()};
}

}  // namespace flow::ops
