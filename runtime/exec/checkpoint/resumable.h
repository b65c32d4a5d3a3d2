// What `--resume` finds in a directory.
#pragma once

#include "runtime/exec/core/run_request.h"

namespace flow::exec {

enum class Resumable {
  kNothing,     // it is absent or empty
  kUnsaved,     // a run of this plan that left no checkpoint
  kCheckpoint,  // a whole checkpoint
};

/// Of the request's directory, for its job. RequestError for any other directory. Writes nothing.
Resumable find_resumable(const RunRequest& request);

}  // namespace flow::exec
