// How many threads pay, by how long steps will take, roughly.
#pragma once

#include "runtime/plan/model/plan.h"

namespace flow::cpu {

/// The threads for a whole call: `requested`, or as many cores as are usable, or one where the
/// call is too short to share. At most 256.
int choose_threads(const plan::Job& job, int requested);

/// The threads for one step of it: waking the others costs about a microsecond.
int choose_threads(const plan::Job& job, const plan::Step& step, int threads);

}  // namespace flow::cpu
