// What `--resume` finds in a directory, and what must be the same for a run to be resumed: its job,
// inputs, data and outputs. Nothing here writes.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/input/data_files.h"

namespace flow::exec {

/// "\n  seed: 1 in the run, 2 now", a line for each difference between the run in `directory` and
/// the request, at most ten. Empty where the plan of the run cannot be read.
std::string differences_from_run(const fs::path& directory, const RunRequest& request);

/// RequestError that lists differences when the checkpoint is of another job.
void require_same_job(const Checkpoint& checkpoint, const RunRequest& request);

/// What `--input` gives, as checkpoints keep it: of a file `@` alone, for it may have moved.
std::map<std::string, std::string> given_inputs(const RunRequest& request);

/// RequestError when the run was given another `--input`.
void require_same_inputs(const Checkpoint& checkpoint, const RunRequest& request);

/// Hashes the data. RequestError when they are not what the checkpoint says.
DataFiles require_same_data(const Checkpoint& checkpoint, const RunRequest& request);

/// RunError when an output is missing, shortened or changed. `continued`: the outputs to which the
/// run appends, below its directory; others are not looked at.
void require_same_outputs(const Checkpoint& checkpoint, const fs::path& directory,
                          const std::vector<std::string>& continued);

/// What `--resume` finds in a directory.
enum class Resumable {
  kNothing,     // it is absent or empty
  kUnsaved,     // a run of this plan that left no checkpoint
  kCheckpoint,  // a whole checkpoint
};

/// Of the request's directory, for its job. RequestError for any other directory. Writes nothing.
Resumable find_resumable(const RunRequest& request);

}  // namespace flow::exec
