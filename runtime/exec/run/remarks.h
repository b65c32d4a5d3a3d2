// What a user should know of a run before its first step.
#pragma once

#include "runtime/exec/run/preparation.h"

namespace flow::exec {

/// Says what looks like a mistake, or costs more than expected: values that are not finite, layers
/// that nobody trains, dropped rows, hooks that never fire or write much. REQUIRES: request.say.
void say_remarks(const RunRequest& request, const Backend& backend, const PreparedRun& prepared);

}  // namespace flow::exec
