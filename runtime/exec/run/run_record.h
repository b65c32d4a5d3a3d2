// What a run leaves about itself: its plan, and the record of what ran where.
#pragma once

#include "runtime/exec/core/backend.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// RequestError where a path that the plan of the run names is not UTF-8, which JSON requires.
/// `request.directory` may be empty: then it is a directory in `runs`.
void require_utf8_paths(const RunRequest& request);

/// The plan as it ran, with the root relative to the run: a project that moves takes its runs
/// along.
void write_plan(const RunRequest& request);

/// Does it keep metrics? A train job has losses, and any job what its print sinks reduce.
bool has_metrics(const RunRequest& request);

/// All that is known of a run but how far it came and how it ended.
plan::RunRecord record_of(const Backend& backend, const RunRequest& request,
                          const PreparedRun& prepared);

}  // namespace flow::exec
