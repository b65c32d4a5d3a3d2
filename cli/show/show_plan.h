// A plan in full: what the compiler made of a job.
#pragma once

#include <string>

#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// All inputs, variables, steps and outputs of a call, as aligned columns.
std::string show_steps(const plan::Job& job);

/// The commands that a run of the job starts, in full: for what, when, how and which.
std::string show_commands(const plan::Job& job);

}  // namespace flow::cli
