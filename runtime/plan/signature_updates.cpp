// The shape rules of updates of variables and of what comes before them.
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

/// The gradient, the variable and `slots` slots are alike; what may follow is a scalar.
void update_of(Call& call, size_t slots) {
  const size_t alike = 2 + slots;
  call.require_same_shapes(alike);
  call.require(call.operands().size() == alike || call.shape(alike).rank() == 0,
               "factor is {}; expected a scalar", call.shape(call.operands().size() - 1).str());
  for (size_t i = 1; i < alike; ++i) call.result(call.number(), call.shape(i));
}

}  // namespace

namespace rules {

void update(Call& call) { update_of(call, 0); }
void update_slot(Call& call) { update_of(call, 1); }
void update_two_slots(Call& call) { update_of(call, 2); }

void clip_factor(Call& call) {
  call.require(call.attribute<double>("clip_norm") > 0,
               "clip_norm is {}; expected a positive number", call.attribute<double>("clip_norm"));
  call.result(call.number(), {});
}

void unscale_factor(Call& call) {
  call.require(call.operands().size() > 1 && call.shape(0).rank() == 0,
               "loss scale is {}; expected a scalar", call.shape(0).str());
  call.result(call.number(), {});
}

void move_loss_scale(Call& call) {
  for (size_t i = 0; i < call.operands().size(); ++i)
    call.require(call.shape(i).rank() == 0, "operand of the loss scale is {}; expected a scalar",
                 call.shape(i).str());
  for (size_t i = 0; i < 2; ++i) call.result(call.number(), {});
}

}  // namespace rules

}  // namespace flow::plan
