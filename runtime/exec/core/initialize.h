// What a variable starts with.
#pragma once

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// The initial value, of the variable's dtype and shape. Random ones are drawn in float64 by the
/// variable's name at step 0 and rounded to float32 in every precision; constants and .npy (its
/// path relative to `root`) are exact in float64. RequestError naming the variable where an .npy
/// has another shape, RunError where it cannot be read.
Array initial_value(const plan::Job& job, const plan::Variable& variable, const fs::path& root);

}  // namespace flow::exec
