// What the ranks of a run decide before each call.
#pragma once

#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/stop.h"

namespace flow::exec {

struct NextCall {
  bool launches = true;
  bool saves = false;       // the state after it is captured
  Stop stop = Stop::kNone;  // why nothing is launched; kNone: the inputs have ended or failed
};

/// What all ranks do. A rank that has nothing to launch ends the steps of all. Rank 0 knows when
/// the state is captured, to which all ranks contribute.
NextCall agree_on_call(Collectives& ranks, const NextCall& mine);

}  // namespace flow::exec
