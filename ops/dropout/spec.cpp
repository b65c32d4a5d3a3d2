// The records of dropout: a layer that does nothing in predict jobs, and a primitive for train
// jobs.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Names the random draw after the op if no layer has named it.
void normalize_dropout(Call& /*call*/, Attributes& attributes) {
  if (!attributes.has("consumer")) attributes.set("consumer", std::string("dropout"));
}

void infer_dropout(Call& call) {
  const Operand& x = call.operand(0);
  call.result(x.dtype, x.shape, x.batch_axis);
  call.result(DType::kBool, x.shape, x.batch_axis);
}

void infer_dropout_grad(Call& call) {
  if (call.shape(1) != call.shape(0))
    call.bad_operand(1, Reason::kShapeMismatch, "the mask has a different shape");
  else
    call.result(call.dtype(0), call.shape(0),
                common_batch(call.operand(0).batch_axis, call.operand(1).batch_axis));
}

AttributeSpec rate_attribute() {
  return fraction_attribute("rate", "", "fraction of elements to drop");
}

}  // namespace

std::vector<OpSpec> dropout() {
  return {
      {.name = "dropout",
       .doc = "Dropout (Srivastava et al., 2014): zeroes random elements and rescales the rest; "
              "the identity in inference mode.",
       .formula = "y = x mask / (1 - rate)",
       .operands = {{"in", "any shape"}},
       .attributes = {rate_attribute()},
       .plan_attributes = {{"consumer", Kind::kText}},
       .results = {{"out"}, {.name = "mask", .optional = true}},
       .normalize = normalize_dropout,
       .infer = infer_dropout,
       .in_place = {0},
       .trains_otherwise = true,
       .elementwise = true,
       .examples = {"dropout(f32[30,40]) rate=0.5", "dropout(f32[7]) rate=0.1",
                    "dropout(f32[3,4]) rate=0"}},
      {.name = "dropout_grad",
       .doc = "Gradient of dropout.",
       .formula = "dx = dy mask / (1 - rate)",
       .operands = {{"dy", "any shape"}, {"mask", "elements that dropout kept", Accepts::kBool}},
       .attributes = {rate_attribute()},
       .infer = infer_dropout_grad,
       .in_place = {0},
       .elementwise = true,
       .linear = {0},
       .internal = true,
       .examples = {"dropout_grad(f32[30,40], bool[30,40]) rate=0.5"}},
  };
}

}  // namespace flow::ops
