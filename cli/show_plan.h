// A plan as people read it.
#pragma once

#include <string>

#include "runtime/plan/plan.h"

namespace flow::cli {

/// "float32 [100, 10]".
std::string type_of(const plan::Tensor& tensor);

/// What one call of the job does, as aligned columns: inputs, variables, steps, returns, hooks.
std::string show_job(const plan::Job& job);

/// The commands that a run of the job starts, in full: whose, when, how and what.
std::string show_commands(const plan::Job& job);

}  // namespace flow::cli
