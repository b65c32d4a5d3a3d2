// The records of the unary ops in unary.def and of their gradients.
#include <cmath>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_unary_grad(Call& call) {
  if (!call.same_dtype()) return;
  const Operand& dy = call.operand(0);
  if (call.shape(1) == dy.shape)
    call.result(dy.dtype, dy.shape, common_batch(dy.batch_axis, call.operand(1).batch_axis));
  else
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("the operands are {} and {}; expected equal shapes",
                                 dy.shape.str(), call.shape(1).str()));
}

/// Reports bounds if neither is finite, or if `min` exceeds `max`.
void check_bounds(Call& call) {
  const double min = call.attribute<double>("min"), max = call.attribute<double>("max");
  if (std::isinf(min) && std::isinf(max))
    call.bad_call(Reason::kMissingAttribute, "`clip_by_value` needs `min` or `max`");
  else if (!(min <= max))
    call.bad_attribute("min", Reason::kOutOfRange,
                       fmt::format("`min` is {}; expected at most `max`: {}", min, max));
}

void infer_clip(Call& call) {
  check_bounds(call);
  infer_like_operand(call);
}

void infer_clip_grad(Call& call) {
  check_bounds(call);
  infer_unary_grad(call);
}

/// The attributes that a unary op shares with its gradient, and the shape functions that check
/// them.
struct Parameters {
  std::vector<AttributeSpec> attributes = {};
  InferRule infer = infer_like_operand, infer_grad = infer_unary_grad;
  Epilogue epilogue = Epilogue::kNone;  // if set, the 16-bit kernels support its gradient too
};

Parameters none() { return {}; }

Parameters rectifier() { return {.epilogue = Epilogue::kRelu}; }

Parameters alpha(std::string_view fallback, std::string_view doc) {
  return {{number_attribute("alpha", fallback, doc)}};
}

Parameters divisor(std::string_view fallback, std::string_view doc) {
  return {{number_attribute("alpha", fallback, doc, 1e-6)}};
}

Parameters line() {
  return {{number_attribute("alpha", "0.16666666666666666", "slope"),
           number_attribute("beta", "0.5", "value at 0")}};
}

Parameters margin(std::string_view fallback, std::string_view doc) {
  return {{number_attribute("lambd", fallback, doc, 0)}};
}

Parameters cutoff() {
  return {{number_attribute("threshold", "0", "largest number that is replaced"),
           number_attribute("value", "0", "what replaces it")}};
}

Parameters approximate() {
  return {{choice_attribute("approximate", "none",
                            "approximation to use; tanh selects the second formula",
                            {"none", "tanh"})}};
}

Parameters bounds() {
  return {
      {value_attribute("min", "-inf", "lower bound"), value_attribute("max", "inf", "upper bound")},
      infer_clip,
      infer_clip_grad};
}

OpSpec number_spec(std::string_view name, Domain domain, bool linear, std::string_view doc,
                   std::string_view formula, std::string_view numpy,
                   std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape", Accepts::kNumber}},
          .infer = infer_like_operand,
          .in_place = {0},
          .elementwise = true,
          .linear = linear ? std::vector<size_t>{0} : std::vector<size_t>(),
          .domain = domain,
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec forward(std::string_view name, Domain domain, const Parameters& parameters,
               std::string_view doc, std::string_view formula, std::string_view numpy,
               std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape"}},
          .attributes = parameters.attributes,
          .infer = parameters.infer,
          .in_place = {0},
          .elementwise = true,
          .epilogue = parameters.epilogue,
          .domain = domain,
          .numpy = numpy,
          .examples = std::move(examples)};
}

void infer_test(Call& call) {
  const Operand& x = call.operand(0);
  call.result(DType::kBool, x.shape, x.batch_axis);
}

OpSpec test_spec(std::string_view name, std::string_view doc, std::string_view formula,
                 std::string_view numpy, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape"}},
          .infer = infer_test,
          .elementwise = true,
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec backward(std::string_view name, const Parameters& parameters, std::string_view formula,
                bool reads_result) {
  const bool low_precision = parameters.epilogue != Epilogue::kNone;
  OperandSpec read = reads_result ? OperandSpec{"y", "result of the function"}
                                  : OperandSpec{"x", "operand of the function"};
  read.low_precision = low_precision;
  return {.name = name,
          .doc = "Gradient of the function in its name.",
          .formula = formula,
          .operands = {{.name = "dy", .doc = "any shape", .low_precision = low_precision}, read},
          .attributes = parameters.attributes,
          .infer = parameters.infer_grad,
          .in_place = {0, 1},
          .elementwise = true,
          .linear = {0},
          .rounds_operands = low_precision ? rounds_always : nullptr,
          .gradient_of = parameters.epilogue,
          .internal = true};
}

}  // namespace

std::vector<OpSpec> unary() {
  constexpr bool kOperand = false, kResult = true;  // the value that the gradient reads
  return {
#define FLOW_UNARY_NUMBER_SPEC(op, domain, linear, doc, formula, numpy, ...) \
  number_spec(#op, Domain::domain, linear, doc, formula, numpy, {__VA_ARGS__}),
#define FLOW_UNARY_STEP_SPEC(op, domain, doc, formula, numpy, ...) \
  forward(#op, Domain::domain, none(), doc, formula, numpy, {__VA_ARGS__}),
#define FLOW_UNARY_TEST_SPEC(op, doc, formula, numpy, ...) \
  test_spec(#op, doc, formula, numpy, {__VA_ARGS__}),
#define FLOW_UNARY_SPEC(op, domain, parameters, doc, formula, numpy, grad_formula, reads, ...) \
  forward(#op, Domain::domain, parameters, doc, formula, numpy, {__VA_ARGS__}),                \
      backward(#op "_grad", parameters, grad_formula, reads),
#include "ops/unary/unary.def"
  };
}

}  // namespace flow::ops
