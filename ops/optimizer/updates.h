// What records of updates of variables have in common. Learning rates come from the schedule, at
// each step, times rate_scale: lr; t is the step counted from 1.
#pragma once

#include "ops/core/spec.h"

namespace flow::ops {

/// Reports operands up to `count` that are not of the first one's shape; false if there are any.
bool fit_gradient(Call& call, size_t count);

/// A variable and that many slots get new values; what may follow is the factor that clips.
template <size_t kSlots>
void infer_update(Call& call);

/// The record of an update of a variable and its slots. `attributes`: what only this optimizer has,
/// beside the scales; `in_plans`: what only plans have.
OpSpec update_spec(std::string_view name, std::string_view doc, std::string_view formula,
                   const std::vector<std::string_view>& slots,
                   const std::vector<AttributeSpec>& attributes, double flops,
                   std::vector<PlanAttribute> in_plans = {});

/// The record of an update of the rows alone that a sparse gradient has; all else is as `dense`
/// says, but for weight decay, which would move every row.
OpSpec sparse_update(std::string_view name, std::string_view doc, OpSpec dense);
/// The op that updates by a sparse gradient as `update` does by a dense one; null where there is
/// none.
const OpSpec* sparse_form(const OpSpec& update);

AttributeSpec required_number(std::string_view name, std::string_view doc);
/// The same of at least 0, and in [0, 1), as plans hold them.
AttributeSpec required_magnitude(std::string_view name, std::string_view doc);
AttributeSpec required_fraction(std::string_view name, std::string_view doc);
AttributeSpec gradient_scale();
AttributeSpec rate_scale();
AttributeSpec weight_decay();
/// Weight decay as an L2 penalty, absent without one: the gradient is scale g + l2 w.
PlanAttribute l2_in_plans();
/// That coefficient; 0: none.
double l2_of(const Attributes& attributes);

AttributeSpec update_epsilon();
AttributeSpec beta1();
AttributeSpec beta2();
AttributeSpec decay_rate();

/// The factor on the gradient, where there is one.
OperandSpec gradient_factor();

/// The new values of the variable and its slots.
std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots);

}  // namespace flow::ops
