// How long a step will take, roughly: enough to decide whether a second thread pays.
#pragma once

#include "runtime/plan/plan.h"

namespace flow::cpu {

/// Seconds on one thread.
double estimate_seconds(const plan::Job& job, const plan::Step& step);

/// The threads for a whole call: `requested`, or as many cores as are usable, or one where the
/// call is too short to share. At most 256.
int choose_threads(const plan::Job& job, int requested);

/// The threads for one step of it: waking the others costs about a microsecond.
int choose_threads(const plan::Job& job, const plan::Step& step, int threads);

}  // namespace flow::cpu
