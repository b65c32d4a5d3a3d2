// `extends:`: a job that takes over what another one reads and computes.
#pragma once

#include <string>
#include <vector>

#include "compiler/job/reader.h"

namespace flow::job {

/// Replaces `extends:` in each job of `file` by what it takes over: `inputs`, `graph`, `placement`,
/// `precision` and `determinism` of the other job, with those of its own merged over them. Entries
/// that it adds to the graph have no entry above them. Variables are not put in yet.
void extend_jobs(Reader& reader, yaml::Node& file);

/// What a path of keys leads to in a job that the job of the path extends, before extend_jobs;
/// null where that is nothing, or deleted on the way.
const yaml::Node* inherited(const yaml::Node& file, const std::vector<std::string>& path);

}  // namespace flow::job
