// Why the library does not compute a step that it might compute.
#pragma once

#include <string>
#include <string_view>

#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// Keeps the reason as an attribute that this backend alone sets.
void set_refusal(plan::Step& step, std::string reason);

/// Names our kernel for a step, with the library's refusal, if there was one. `products`: of the
/// library's kernel that it uses, if any.
std::string name_own_kernel(const plan::Step& step, std::string_view products = {});

}  // namespace flow::cuda
