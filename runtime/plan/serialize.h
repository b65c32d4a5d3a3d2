// The plan as text: JSON with sorted keys and one step per line, so that diffs are readable.
#pragma once

#include <string>
#include <string_view>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Writes the plan as text. Equal plans give equal bytes. A double is written as the shortest text
/// that reads back as the same double.
std::string to_json(const Plan& plan);

/// Reads and checks a plan, which is untrusted. Throws RequestError with `path` and the fault (not
/// JSON, another version, a hash that does not match, a wrong type, an index out of range, ...).
Plan from_json(std::string_view text, const std::string& path);

/// Returns 16 hex digits that identify what runs: the hash of the whole plan except for root, notes
/// and `where`.
std::string hash(const Plan& plan);

/// Returns the job without the parts that may change before a run is resumed: hooks, sinks and the
/// run section, except for `shuffle`.
Job resumed_part(const Job& job);

/// Returns the hash of that part of one job, or of a job and all jobs that it calls. `--resume`
/// compares these hashes.
std::string resume_hash(const Job& job);
std::string resume_hash(const Plan& plan, const Job& job);

}  // namespace flow::plan
