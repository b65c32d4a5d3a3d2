// Specifications of the updates of variables, and the parts that they share.
#include <fmt/format.h>

#include "ops/core/families.h"
#include "ops/optimizer/rules.h"

namespace flow::ops {
namespace {

/// Returns the operands of an update: the gradient, the variable, its slots and the factor.
std::vector<OperandSpec> with_slots(const std::vector<std::string_view>& slots) {
  std::vector<OperandSpec> operands{{"gradient", "gradient of the summed loss"},
                                    {"variable", "same shape as the gradient"}};
  for (const std::string_view slot : slots)
    operands.push_back({slot, "optimizer state, same shape as the gradient"});
  operands.push_back(gradient_factor());
  return operands;
}

/// Infers the results of a sparse update, whose indices follow the slots.
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

// Both arrays are indexed by the number of slots.
constexpr InferRule kInfer[] = {infer_update<0>, infer_update<1>, infer_update<2>, infer_update<3>};
constexpr InferRule kInferSparse[] = {infer_sparse_update<0>, infer_sparse_update<1>,
                                      infer_sparse_update<2>};

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

template <size_t kSlots>
void infer_update(Call& call) {
  constexpr size_t kAlike = 2 + kSlots;
  fit_gradient(call, kAlike);
  if (call.operands() > kAlike && call.shape(kAlike).rank() > 0)
    call.bad_operand(kAlike, Reason::kShapeMismatch,
                     fmt::format("a factor {}", call.shape(kAlike).str()));
  if (call.failed()) return;
  const Operand& gradient = call.operand(0);
  for (size_t i = 1; i < kAlike; ++i) call.result(gradient.dtype, gradient.shape, kNoBatch);
}
template void infer_update<0>(Call&);

OpSpec update_spec(std::string_view name, std::string_view doc, std::string_view formula,
                   const std::vector<std::string_view>& slots,
                   const std::vector<AttributeSpec>& attributes, double flops,
                   std::vector<PlanAttribute> in_plans) {
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

OpSpec sparse_update(std::string_view name, std::string_view doc, OpSpec dense) {
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
  spec.infer = kInferSparse[spec.results.size() - 1];
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

std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots) {
  std::vector<ResultSpec> results{{.name = "updated", .updates = size_t{1}}};
  for (const std::string_view slot : slots)
    results.push_back({.name = slot, .updates = results.size() + 1});
  return results;
}

std::vector<OpSpec> optimizer() {
  using namespace optimizers;
  return {
#define FLOW_UPDATE(op, rule) op(),
#include "ops/optimizer/optimizers.def"
      muon_direction(),
      muon_polynomial(),
  };
}

}  // namespace flow::ops

namespace flow::optimizers {

using ops::Call, ops::Operand, ops::Reason, ops::kNoBatch;

/// Infers the result. The gradient, the variable and its mean squares must have the same shape.
void infer_adafactor_update(Call& call) {
  if (ops::fit_gradient(call, 3) && call.have_shape(3, call.operands(), {}))
    call.result(call.operand(0).dtype, call.operand(0).shape, kNoBatch);
}

void infer_direction(Call& call) {
  if (!ops::fit_gradient(call, 2) || !call.have_shape(2, call.operands(), {})) return;
  for (int i = 0; i < 2; ++i) call.result(call.operand(0).dtype, call.operand(0).shape, kNoBatch);
}

void infer_polynomial(Call& call) {
  const Operand& gram = call.operand(0);
  if (gram.shape.rank() != 2 || gram.shape[0] != gram.shape[1])
    call.bad_operand(0, Reason::kShapeMismatch,
                     fmt::format("{}; expected a square matrix", gram.shape.str()));
  else if (call.have_shape(1, 2, gram.shape))
    call.result(gram.dtype, gram.shape, kNoBatch);
}

void infer_average(Call& call) {
  const Operand &value = call.operand(0), &ema = call.operand(1);
  if (ema.shape != value.shape)
    call.bad_operand(
        1, Reason::kShapeMismatch,
        fmt::format("an average {} of a variable {}", ema.shape.str(), value.shape.str()));
  else
    call.result(value.dtype, value.shape, kNoBatch);
}

void infer_lookahead(Call& call) {
  const Operand &first = call.operand(0), &second = call.operand(1);
  if (first.shape != second.shape)
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("{} for {}", second.shape.str(), first.shape.str()));
  else
    call.result(first.dtype, first.shape, kNoBatch);
}

}  // namespace flow::optimizers
