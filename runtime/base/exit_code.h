// The exit statuses of all programs.
#pragma once

namespace flow {

enum ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,      // arrays differ; a loss, what is saved or checked is not finite
  kRequestWrong = 2,     // usage, job file, input that does not fit
  kRunFailed = 3,        // device, memory, file, hook, label out of range
  kNothingCompared = 4,  // flowdiff found no pair of arrays
  kDefect = 70,          // of ours
};

}  // namespace flow
