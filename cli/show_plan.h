// A plan as people read it.
#pragma once

#include <string>

#include "runtime/plan/plan.h"

namespace flow::cli {

/// What one call of the job does, as aligned columns: inputs, variables, steps, returns, hooks.
std::string show_job(const plan::Job& job);

}  // namespace flow::cli
