// What records of updates of variables have in common. Learning rates come from the schedule, at
// each step, times rate_scale: lr; t is the step counted from 1.
#pragma once

#include <optional>

#include "ops/core/spec.h"

namespace flow::ops {

/// Reports operands up to `count` that are not of the first one's shape; false if there are any.
bool fit_gradient(Call& call, size_t count);

/// A variable and that many slots get new values; what may follow is the factor that clips.
template <size_t kSlots>
void infer_update(Call& call);

/// An attribute of an update, as passes write it and as plans have it.
struct UpdateAttribute {
  std::optional<AttributeSpec> spec;  // none: passes leave it out but where it is needed
  PlanAttribute in_plans;
};
UpdateAttribute required(std::string_view name, std::string_view doc, Kind kind);
UpdateAttribute flag(std::string_view name, std::string_view fallback, std::string_view doc);
/// Only where it is needed.
UpdateAttribute in_plans(std::string_view name, Kind kind);
UpdateAttribute momentum(Kind kind = Kind::kFinite);
UpdateAttribute decay_rate();
UpdateAttribute epsilon();
UpdateAttribute beta1();
UpdateAttribute beta2();
UpdateAttribute weight_decay();
/// Weight decay as an L2 penalty, absent without one: the gradient is scale g + l2 w.
UpdateAttribute l2_decay();
/// That coefficient; 0: none.
double l2_of(const Attributes& attributes);

/// The record of an update that moves a variable and `slots`. `attributes`: those beside `scale`
/// and `rate_scale`.
OpSpec update_spec(std::string_view name, std::string_view doc, std::string_view formula,
                   const std::vector<std::string_view>& slots,
                   const std::vector<UpdateAttribute>& attributes, double flops);

/// The record of an update of the rows alone that a sparse gradient has; all else is as `dense`
/// says, but for weight decay, which would move every row.
OpSpec sparse_update(std::string_view name, OpSpec dense);
/// The op that updates by a sparse gradient as `update` does by a dense one; null where there is
/// none.
const OpSpec* sparse_form(const OpSpec& update);

AttributeSpec required_number(std::string_view name, std::string_view doc);
AttributeSpec gradient_scale();
AttributeSpec rate_scale();

/// The new values of the variable and its slots.
std::vector<ResultSpec> updated_with(const std::vector<std::string_view>& slots);

}  // namespace flow::ops
