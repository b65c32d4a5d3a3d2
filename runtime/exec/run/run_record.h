// What a run leaves about itself: its plan, and the record of what ran where.
#pragma once

#include "runtime/exec/run/backend.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// The plan as it ran, with the root relative to the run: a project that moves takes its runs
/// along.
void write_plan(const RunRequest& request);

/// Does it keep metrics? A train job has losses, and any job what its print sinks reduce.
bool has_metrics(const RunRequest& request);

/// All that is known of a run but how far it came and how it ended.
plan::RunRecord record_of(const Backend& backend, const RunRequest& request,
                          const PreparedRun& prepared);

}  // namespace flow::exec
