// The parts of the plan check, in their order. Each takes for granted what those before it
// have checked.
#pragma once

#include "runtime/plan/check/location.h"
#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Every id lies within its vector, or is none where none may stand.
void check_ids(const Job& job, const Location& location);

/// Devices, shards, and which steps are theirs; without shards nothing is combined.
void check_sharding(const Job& job, const Location& location);

/// Each tensor by itself and all together: names, shapes, row axes, bytes, and what they alias.
void check_tensors(const Job& job, const Location& location);

/// Only predict jobs on one device loop, without shards; what passes leave to the next one.
void check_loop(const Job& job, const Location& location);

/// Types of calls, order (a tensor is made once, before it is read; probes are read by probes),
/// devices (only a copy reads of another), and updates of variables and of the states of a loop.
void check_steps(const Job& job, const Location& location);

/// Steps of shards compute results from rows of their own, which can be combined; the others read
/// the whole, and only they update variables.
/// REQUIRES: the job has shards.
void check_layouts(const Job& job, const Location& location);

/// What drives the calls: variables' initial values, inputs, datasets, deliveries, optimizer, run
/// section. Shapes are those of whole batches.
void check_io(const Job& job, const Location& location);

/// A learning rate: what learning_rate() relies on, and nothing that is not finite.
void check_schedule(const Schedule& schedule, const Location& location);

/// Values by which the run decides. REQUIRES: the jobs that it calls are there.
void check_followed(const Plan& plan, const Job& job, const Location& location);

/// Returns, hooks and their sinks.
void check_deliveries(const Job& job, const Location& location);

}  // namespace flow::plan
