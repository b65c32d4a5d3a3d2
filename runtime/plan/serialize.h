// The plan as text: JSON with sorted keys and one step a line, so that diffs read.
#pragma once

#include <string>
#include <string_view>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// The same plan gives the same bytes. Doubles are the shortest that read back the same.
std::string to_json(const Plan& plan);

/// Reads and checks a plan: it is untrusted. RequestError names `path` and what is wrong (not
/// JSON, another version, a hash that does not fit, a wrong type, an index out of range, ...).
Plan from_json(std::string_view text, const std::string& path);

/// 16 hex digits over everything but root, notes and `where`: names what runs.
std::string hash(const Plan& plan);

/// The job without what may change before a run is resumed: hooks, sinks and the run section, but
/// for `shuffle`.
Job resumed_part(const Job& job);

/// The same as `hash` for that part of one job, or of the job and of all it calls: what `--resume`
/// compares.
std::string resume_hash(const Job& job);
std::string resume_hash(const Plan& plan, const Job& job);

}  // namespace flow::plan
