// Common parts of the specifications of updates. In formulas, `lr` is the learning rate of the
// schedule at each step times rate_scale, and `t` is the step, counted from 1.
#pragma once

#include "ops/core/spec.h"

namespace flow::ops {

/// Reports operands before `count` whose shape differs from that of operand 0. Returns false if
/// there are any.
bool fit_gradient(Call& call, size_t count);

/// Infers the new values of a variable and kSlots slots. The optional operand after the slots is
/// the factor that clips.
template <size_t kSlots>
void infer_update(Call& call);

/// Returns the specification of an update of a variable and its slots. `attributes` are those that
/// only this optimizer has, besides the scales; `in_plans` are those that exist only in plans.
OpSpec update_spec(std::string_view name, std::string_view doc, std::string_view formula,
                   const std::vector<std::string_view>& slots,
                   const std::vector<AttributeSpec>& attributes, double flops,
                   std::vector<PlanAttribute> in_plans = {});

/// Returns the specification of an update of only the rows that a sparse gradient has. Everything
/// else is as in `dense`, except weight decay, which is left out because it would move every row.
OpSpec sparse_update(std::string_view name, std::string_view doc, OpSpec dense);
/// Returns the op that performs `update` with a sparse gradient, or null if there is none.
const OpSpec* sparse_form(const OpSpec& update);

AttributeSpec required_number(std::string_view name, std::string_view doc);
/// Return the attribute of a required number that must be at least 0, or in [0, 1), in plans.
AttributeSpec required_magnitude(std::string_view name, std::string_view doc);
AttributeSpec required_fraction(std::string_view name, std::string_view doc);
AttributeSpec gradient_scale();
AttributeSpec rate_scale();
AttributeSpec weight_decay();
/// Returns the plan attribute for weight decay as an L2 penalty, with which the gradient is scale g
/// + l2 w. It is absent without a penalty.
PlanAttribute l2_in_plans();
/// Returns the coefficient of the L2 penalty, or 0 without one.
double l2_of(const Attributes& attributes);

AttributeSpec update_epsilon();
AttributeSpec beta1();
AttributeSpec beta2();
AttributeSpec decay_rate();

/// Returns the operand for the optional factor on the gradient.
OperandSpec gradient_factor();

/// Returns the results of an update: the new values of the variable and its slots.
std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots);

}  // namespace flow::ops
