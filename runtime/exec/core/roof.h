// What a device can do at most, measured: what the steps of a profile are compared with.
#pragma once

#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// Each second; 0 where nothing was measured.
struct Roof {
  double flops = 0;  // of a large product of matrices
  double bytes = 0;  // read and written by a sum of large arrays
};

/// The fastest of several runs on `threads` (as in PrepareOptions), with the operands that products
/// have under the job's precision. Takes a fraction of a second and some memory, for the time of
/// the call; no roof where that is not there.
Roof measure_roof(Backend& backend, const plan::Job& job, int threads);

}  // namespace flow::exec
